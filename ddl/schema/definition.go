package schema

import (
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/config"
	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// errCached says that a cached table takes no indexes.
var errCached = dbterror.ErrOptOnCacheTable.GenWithStackByArgs("Create Index")

// AddIndex adds an index that a statement asks for to a table's definition, in
// state none, with the hidden columns of its expressions. Errors are TiDB's, with
// MySQL's numbers. The argument is not changed.
func AddIndex(table *model.TableInfo, arg *model.IndexArg) (*model.IndexInfo, error) {
	if table.FindIndexByName(arg.IndexName.L) != nil || arg.IsPK && table.PKIsHandle {
		if arg.IsPK {
			return nil, infoschema.ErrMultiplePriKey
		}
		return nil, dbterror.ErrDupKeyName.GenWithStack("index already exist %s", arg.IndexName.O)
	}
	for _, hidden := range arg.HiddenCols {
		if model.FindColumnInfo(table.Columns, hidden.Name.L) != nil {
			return nil, infoschema.ErrColumnExists.GenWithStackByArgs(hidden.Name)
		}
	}
	for _, hidden := range arg.HiddenCols {
		tidbddl.InitAndAddColumnToTable(table, hidden.Clone())
	}
	limits := config.GetGlobalConfig()
	if len(table.Columns) > int(atomic.LoadUint32(&limits.TableColumnCountLimit)) {
		return nil, dbterror.ErrTooManyFields
	}
	idx, err := tidbddl.BuildIndexInfo(nil, table, arg.IndexName, arg.IsPK, arg.Unique, false,
		arg.IndexPartSpecifications, arg.IndexOption, model.StateNone)
	if err != nil {
		return nil, err
	}
	if arg.IsPK {
		if _, err := tidbddl.CheckPKOnGeneratedColumn(table, arg.IndexPartSpecifications); err != nil {
			return nil, err
		}
	}
	idx.ID = tidbddl.AllocateIndexID(table)
	table.Indices = append(table.Indices, idx)
	if len(table.Indices) > limits.IndexLimit {
		return nil, dbterror.ErrTooManyKeys.GenWithStackByArgs(limits.IndexLimit)
	}
	if err := checkPrimaryVisible(table); err != nil {
		return nil, err
	}
	return idx, nil
}

// checkPrimaryVisible refuses an invisible primary key. Without one, the first unique index
// on columns that are NOT NULL is the primary key.
func checkPrimaryVisible(table *model.TableInfo) error {
	if pk := table.GetPrimaryKey(); !table.PKIsHandle && pk != nil && pk.Invisible {
		return dbterror.ErrPKIndexCantBeInvisible
	}
	return nil
}
