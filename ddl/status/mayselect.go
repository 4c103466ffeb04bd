package status

import (
	"fmt"
	"sync"

	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/extension"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege/privileges"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// maySelectFunction is a function of SQL that says whether the session's user may SELECT from a table: fastddl_may_select(schema, table).
const maySelectFunction = "fastddl_may_select"

// readers knows the accounts of the stores that are open. TiDB has one set of functions in a process, and they do not see their session:
// of several stores, which only tests have in one process, each has to allow a reading.
var readers struct {
	mu      sync.Mutex
	domains map[*Tables]*domain.Domain
}

var registerMaySelect = sync.OnceValue(func() error {
	return extension.RegisterExtensionFunc(&extension.FunctionDef{
		Name: maySelectFunction, EvalTp: types.ETInt, ArgTps: []types.EvalType{types.ETString, types.ETString}, EvalIntFunc: maySelect,
	})
})

// ServeReaders makes the function answer for this store.
func (r *Tables) ServeReaders() error {
	if err := registerMaySelect(); err != nil {
		return fmt.Errorf("register %s: %w", maySelectFunction, err)
	}
	readers.mu.Lock()
	defer readers.mu.Unlock()
	if readers.domains == nil {
		readers.domains = make(map[*Tables]*domain.Domain)
	}
	readers.domains[r] = r.Domain
	return nil
}

// DismissReaders ends that.
func (r *Tables) DismissReaders() {
	readers.mu.Lock()
	defer readers.mu.Unlock()
	delete(readers.domains, r)
}

// maySelect is the function. What it is not sure of is not shown.
func maySelect(ctx extension.FunctionContext, row chunk.Row) (int64, bool, error) {
	args, err := ctx.EvalArgs(row)
	if err != nil {
		return 0, false, err
	}
	user := ctx.User()
	if user == nil || len(args) != 2 || args[0].IsNull() || args[1].IsNull() {
		return 0, false, nil
	}
	readers.mu.Lock()
	defer readers.mu.Unlock()
	for _, dom := range readers.domains {
		handle := dom.PrivilegeHandle()
		if handle == nil {
			return 0, false, nil
		}
		manager := privileges.NewUserPrivileges(handle, nil)
		if !manager.GetAuthWithoutVerification(user.AuthUsername, user.AuthHostname) ||
			!manager.RequestVerification(ctx.ActiveRoles(), args[0].GetString(), args[1].GetString(), "", mysql.SelectPriv) {
			return 0, false, nil
		}
	}
	if len(readers.domains) == 0 {
		return 0, false, nil
	}
	return 1, false, nil
}
