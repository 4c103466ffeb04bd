package perftables

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/infoschema"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/ddl/session"
	"fastddl/ddl/status"
	"fastddl/flow"
)

// served is what the tables of an open store are read from.
type served struct {
	sessions *session.Pool
	load     *flow.LoadLog
}

// stores are the open stores. TiDB has one definition of a virtual schema in a process.
var stores sync.Map // *domain.Domain to served

// Serve gives the tables the rows of a store, and the load of its server, until dismiss is called. Before and after, they cannot be read.
func Serve(dom *domain.Domain, sessions *session.Pool, load *flow.LoadLog) (dismiss func()) {
	stores.Store(dom, served{sessions, load})
	return func() { stores.Delete(dom) }
}

// jobTable is a virtual table whose rows are those of a table for people that a session may see.
type jobTable struct {
	infoschema.VirtualTable
	source source
	meta   *model.TableInfo
	cols   []*table.Column
}

// source is where the rows of a table come from.
type source struct {
	name string
	// columns are their definitions, each of which begins with the name.
	columns []string
	// read calls row for each row that the viewer sees, with the values of the named columns. Times are in loc.
	read func(ctx context.Context, s served, names []string, v *viewer, loc *time.Location, row func(values []types.Datum, size int64) error) error
}

// sources are those of all tables.
func sources() []source {
	var out []source
	for _, public := range status.PublicTables() {
		out = append(out, source{name: public.Name, columns: public.Columns, read: func(
			ctx context.Context, s served, names []string, v *viewer, loc *time.Location, row func(values []types.Datum, size int64) error,
		) error {
			return public.Read(ctx, s.sessions, names, v, loc, row)
		}})
	}
	return append(out, loadSource)
}

func newJobTable(from source, meta *model.TableInfo) *jobTable {
	t := &jobTable{source: from, meta: meta}
	for _, c := range meta.Columns {
		t.cols = append(t.cols, table.ToColumn(c))
	}
	return t
}

// Cols implements table.Table.
func (t *jobTable) Cols() []*table.Column { return t.cols }

// VisibleCols implements table.Table.
func (t *jobTable) VisibleCols() []*table.Column { return t.cols }

// WritableCols implements table.Table.
func (t *jobTable) WritableCols() []*table.Column { return t.cols }

// DeletableCols implements table.Table.
func (t *jobTable) DeletableCols() []*table.Column { return t.cols }

// FullHiddenColsAndVisibleCols implements table.Table.
func (t *jobTable) FullHiddenColsAndVisibleCols() []*table.Column { return t.cols }

// Meta implements table.Table.
func (t *jobTable) Meta() *model.TableInfo { return t.meta }

// GetPhysicalID implements table.Table.
func (t *jobTable) GetPhysicalID() int64 { return t.meta.ID }

// GetPartitionedTable implements table.Table.
func (t *jobTable) GetPartitionedTable() table.PartitionedTable { return nil }

// errNoJobs is the error of a server that leaves all index builds to TiDB, or is about to close.
var errNoJobs = errors.New("this server does not build indexes by itself")

// IterRecords is called by TiDB's executor of virtual tables (TableScanExec in pkg/executor/select.go) with the session that reads.
func (t *jobTable) IterRecords(ctx context.Context, sctx sessionctx.Context, cols []*table.Column, fn table.RecordIterFunc) error {
	store, ok := stores.Load(domain.GetDomain(sctx))
	if !ok {
		return errNoJobs
	}
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name.L
	}
	vars := sctx.GetSessionVars()
	handle := tidbkv.IntHandle(0)
	err := t.source.read(ctx, store.(served), names, viewerOf(sctx), vars.Location(), func(values []types.Datum, size int64) error {
		if err := vars.SQLKiller.HandleSignal(); err != nil {
			return err
		}
		vars.StmtCtx.MemTracker.Consume(size) // TiDB keeps the rows until the statement ends
		for i := range values {
			if got, want := values[i].Kind(), cols[i].FieldType.EvalType(); !fits(got, want) {
				return fmt.Errorf("column %s of %s has values of another type", names[i], t.source.name)
			}
		}
		more, err := fn(handle, values, cols)
		handle++
		if err == nil && !more {
			return errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends a reading.
var errEnough = errors.New("enough rows")

// fits says that TiDB's executor can take a value for one of a type. It does not look.
func fits(kind byte, want types.EvalType) bool {
	switch kind {
	case types.KindNull:
		return true
	case types.KindInt64, types.KindUint64:
		return want == types.ETInt
	case types.KindFloat64, types.KindFloat32:
		return want == types.ETReal
	case types.KindMysqlDecimal:
		return want == types.ETDecimal
	case types.KindString, types.KindBytes:
		return want == types.ETString
	case types.KindMysqlTime:
		return want == types.ETDatetime || want == types.ETTimestamp
	case types.KindMysqlJSON:
		return want == types.ETJson
	}
	return false
}

// viewer is the account and the roles of a session.
type viewer struct {
	manager privilege.Manager
	sctx    sessionctx.Context
}

func viewerOf(sctx sessionctx.Context) *viewer {
	return &viewer{manager: privilege.GetPrivilegeManager(sctx), sctx: sctx}
}

// allowed reports whether the session has any of the privileges. One without privileges is TiDB's own.
func (v *viewer) allowed(db, table string, any mysql.PrivilegeType) bool {
	return v.manager == nil || v.manager.RequestVerification(v.sctx.GetSessionVars().ActiveRoles, db, table, "", any)
}

// SeesTable implements status.Viewer.
func (v *viewer) SeesTable(db, table string) bool {
	return db != "" && table != "" && v.allowed(db, table, mysql.AllPrivMask)
}

// MayRead implements status.Viewer.
func (v *viewer) MayRead(db, table string) bool { return v.allowed(db, table, mysql.SelectPriv) }

// seesServer says that it sees what the server does for others.
func (v *viewer) seesServer() bool { return v.allowed("", "", mysql.ProcessPriv) }

// SeesSessions implements status.Viewer, as SHOW PROCESSLIST does.
func (v *viewer) SeesSessions(user string) bool {
	if v.allowed("", "", mysql.ProcessPriv) {
		return true
	}
	own := v.sctx.GetSessionVars().User
	return own != nil && user != "" && own.Username == user
}
