package encode

import (
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/collate"

	"fastddl/kv"
)

// handleColumns returns the IDs of the columns of a clustered primary key.
func handleColumns(t *model.TableInfo) []int64 {
	switch {
	case t.PKIsHandle:
		return []int64{t.GetPkColInfo().ID}
	case t.IsCommonHandle:
		var ids []int64
		for _, col := range ColumnsOf(t, tables.FindPrimaryIndex(t)) {
			ids = append(ids, col.ID)
		}
		return ids
	default:
		return nil
	}
}

// ColumnsOf returns the columns of an index.
func ColumnsOf(t *model.TableInfo, idx *model.IndexInfo) (cols []*model.ColumnInfo) {
	for _, ic := range idx.Columns {
		cols = append(cols, t.Columns[ic.Offset])
	}
	return cols
}

// commonHandle returns the columns of a clustered primary key that is not an integer.
func commonHandle(t *model.TableInfo) (cols []kv.HandleColumn) {
	if !t.IsCommonHandle {
		return nil
	}
	for _, ic := range tables.FindPrimaryIndex(t).Columns {
		col := kv.HandleColumn{Ft: &t.Columns[ic.Offset].FieldType}
		if ic.Length != types.UnspecifiedLength {
			col.PrefixLen = ic.Length
		}
		cols = append(cols, col)
	}
	return cols
}

// handleColumn is a column of the clustered primary key.
type handleColumn struct {
	info  *model.ColumnInfo
	index *model.IndexColumn
}

// restoredHandleColumns returns the columns of the clustered primary key that
// the handle does not hold exactly.
func restoredHandleColumns(table *model.TableInfo) []handleColumn {
	if !collate.NewCollationEnabled() || !table.IsCommonHandle || table.CommonHandleVersion == 0 {
		return nil
	}
	var cols []handleColumn
	for _, ic := range tables.FindPrimaryIndex(table).Columns {
		if info := table.Columns[ic.Offset]; types.NeedRestoredData(&info.FieldType) {
			cols = append(cols, handleColumn{info: info, index: ic})
		}
	}
	return cols
}
