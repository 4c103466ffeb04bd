package check

import (
	"fmt"

	"github.com/pingcap/tidb/pkg/errno"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

var (
	// ErrInconsistent (8223) says that an index and the rows differ.
	ErrInconsistent = dbterror.ClassAdmin.NewStd(errno.ErrDataInconsistent)
	// ErrNoIndex (1176) says that a table has no such index.
	ErrNoIndex = dbterror.ClassAdmin.NewStd(errno.ErrKeyDoesNotExist)
)

// inconsistent names what an index and a row hold for one handle, as TiDB
// prints it. nil values stand for an entry or a row that does not exist.
func inconsistent(tbl *model.TableInfo, idx *model.IndexInfo, h tkv.Handle, index, record []types.Datum) error {
	return ErrInconsistent.FastGenByArgs(tbl.Name.O, idx.Name.O, h.String(), describe(h, index), describe(h, record))
}

func describe(h tkv.Handle, values []types.Datum) string {
	if values == nil {
		return ""
	}
	return fmt.Sprintf("handle: %s, values: %v", h, values)
}
