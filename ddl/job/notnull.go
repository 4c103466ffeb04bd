package job

import (
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/ddl/builder"
)

// A primary key makes its columns NOT NULL. From write-only on, transactions
// bring no NULL into them any more (package table obeys the flag); so when the
// snapshot S is taken, all NULLs that there ever will be are in rows at S, where
// the backfill finds them and the job fails. If there is none, the columns can
// be declared NOT NULL by the switch. The flag is TiDB's for the same purpose.

// preventNulls marks the columns of the primary keys among the indexes that
// still may be NULL.
func preventNulls(tbl *model.TableInfo, indexes []int64) {
	for _, col := range primaryColumns(tbl, indexes) {
		if !mysql.HasNotNullFlag(col.GetFlag()) {
			col.AddFlag(mysql.PreventNullInsertFlag)
		}
	}
}

// allowNulls takes back what preventNulls did.
func allowNulls(tbl *model.TableInfo, indexes []int64) {
	for _, col := range primaryColumns(tbl, indexes) {
		col.DelFlag(mysql.PreventNullInsertFlag)
	}
}

// becomeNotNull declares the columns of the primary keys among the indexes NOT
// NULL.
func becomeNotNull(tbl *model.TableInfo, indexes []int64) {
	allowNulls(tbl, indexes)
	for _, col := range primaryColumns(tbl, indexes) {
		builder.SetNotNull(col)
	}
}

func primaryColumns(tbl *model.TableInfo, indexes []int64) []*model.ColumnInfo {
	var columns []*model.ColumnInfo
	for _, id := range indexes {
		idx := indexByID(tbl, id)
		if !idx.Primary {
			continue
		}
		for _, ic := range idx.Columns {
			columns = append(columns, tbl.Columns[ic.Offset])
		}
	}
	return columns
}
