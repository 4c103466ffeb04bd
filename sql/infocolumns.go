package sql

import (
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	"github.com/pingcap/tidb/pkg/meta/model"
)

// withGenerated completes the tables of go-mysql-server's information_schema that
// are about columns: it leaves out the expressions of generated columns, and
// names the hidden columns of expression indexes.
func (e *Engine) withGenerated(t gms.Table) gms.Table {
	switch t := t.(type) {
	case *information_schema.ColumnsTable:
		out, read := *t, t.RowIter
		out.RowIter = func(ctx *gms.Context, c gms.Catalog, s gms.Schema) (gms.RowIter, error) {
			rows, err := read(ctx, c, s)
			return e.columnRows(rows, err, out.TableSchema)
		}
		return &out
	case *information_schema.InformationSchemaTable:
		if t.TableName != information_schema.KeyColumnUsageTableName {
			return t
		}
		read, schema := t.Reader, t.TableSchema
		return &information_schema.InformationSchemaTable{
			TableName:   t.TableName,
			TableSchema: schema,
			Reader: func(ctx *gms.Context, c gms.Catalog) (gms.RowIter, error) {
				rows, err := read(ctx, c)
				return e.columnRows(rows, err, schema)
			},
		}
	}
	return t
}

func (e *Engine) columnRows(rows gms.RowIter, err error, schema gms.Schema) (gms.RowIter, error) {
	if err != nil {
		return nil, err
	}
	at := schema.IndexOfColName
	return &columnRows{
		RowIter: rows, provider: provider{e},
		db: at("TABLE_SCHEMA"), table: at("TABLE_NAME"), column: at("COLUMN_NAME"), expression: at("GENERATION_EXPRESSION"),
	}, nil
}

// columnRows are rows about columns. The numbers are positions in the rows, that
// of the expression -1 where rows have none.
type columnRows struct {
	gms.RowIter
	provider                      provider
	db, table, column, expression int
}

// Next implements sql.RowIter.
func (r *columnRows) Next(ctx *gms.Context) (gms.Row, error) {
	for {
		row, err := r.RowIter.Next(ctx)
		if err != nil {
			return nil, err
		}
		if name, ok := row[r.column].(string); ok && strings.Contains(name, gms.HiddenSystemColumnPrefix) {
			continue
		}
		return r.completed(ctx, row), nil
	}
}

func (r *columnRows) completed(ctx *gms.Context, row gms.Row) gms.Row {
	if r.expression < 0 {
		return row
	}
	info := r.find(ctx, row)
	if info == nil || !info.IsGenerated() {
		return row
	}
	row = row.Copy()
	row[r.expression] = info.GeneratedExprString
	return row
}

// find returns the column that a row is about, nil if it is not of our tables.
func (r *columnRows) find(ctx *gms.Context, row gms.Row) *model.ColumnInfo {
	text := func(at int) string { s, _ := row[at].(string); return s }
	t, ok := r.provider.schema(ctx).Table(text(r.db), text(r.table))
	if !ok {
		return nil
	}
	return model.FindColumnInfo(t.Info.Columns, strings.ToLower(text(r.column)))
}
