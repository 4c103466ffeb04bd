package sql

import (
	"fmt"
	"slices"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
)

// statisticsTable is information_schema.statistics. In go-mysql-server's are no
// invisible indexes and no expressions.
func statisticsTable() gms.Table {
	base := information_schema.NewDefaultStats()
	return &information_schema.InformationSchemaTable{
		TableName:   base.TableName,
		TableSchema: base.TableSchema,
		Reader:      readStatistics,
	}
}

func readStatistics(ctx *gms.Context, c gms.Catalog) (gms.RowIter, error) {
	databases, err := information_schema.AllDatabasesWithNames(ctx, c, false)
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	var rows []gms.Row
	for _, db := range databases {
		err := gms.DBTableIter(ctx, db.Database, func(t gms.Table) (bool, error) {
			if own, ok := ownTable(t); ok {
				for _, x := range own.def.indexes {
					rows = x.appendRows(rows, db.CatalogName, db.SchemaName)
				}
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return gms.RowsToRowIter(rows...), nil
}

// shownIndex is an index as clients get to see it. SHOW INDEX takes for an
// expression what names no column.
type shownIndex struct{ *index }

// Expressions implements sql.Index.
func (x shownIndex) Expressions() []string {
	out := slices.Clone(x.expressions)
	for i, ordinal := range x.ordinals {
		if h := x.def.hiddenAt(ordinal); h != nil {
			out[i] = h.info.GeneratedExprString
		}
	}
	return out
}

// appendRows appends the rows of information_schema.statistics, one for each part
// of the key.
func (x *index) appendRows(rows []gms.Row, catalog, db string) []gms.Row {
	nonUnique, visible := 1, "YES"
	if x.IsUnique() {
		nonUnique = 0
	}
	if x.info.Invisible {
		visible = "NO"
	}
	for i, ordinal := range x.ordinals {
		var column, expression, length any
		column = x.def.schema[ordinal].Name
		if h := x.def.hiddenAt(ordinal); h != nil {
			column, expression = nil, h.info.GeneratedExprString
		}
		if x.prefixLengths != nil && x.prefixLengths[i] > 0 {
			length = int64(x.prefixLengths[i])
		}
		nullable := ""
		if x.def.schema[ordinal].Nullable {
			nullable = "YES"
		}
		rows = append(rows, gms.Row{
			catalog, db, x.Table(), nonUnique, db, x.ID(), i + 1, column, "A", int64(0), length, nil, nullable,
			x.IndexType(), "", x.Comment(), visible, expression,
		})
	}
	return rows
}
