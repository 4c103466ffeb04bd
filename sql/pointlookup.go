package sql

import (
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/sql/sqltype"
)

var _ gms.IndexSearchableTable = (*Table)(nil)

// SkipIndexCosting implements sql.IndexSearchable.
func (t *Table) SkipIndexCosting() bool { return false }

// LookupForExpressions implements sql.IndexSearchable. It recognises a filter
// that fixes the whole primary key, for which comparing the costs of all indexes
// would take longer than reading the row. The filter is applied again.
func (t *Table) LookupForExpressions(ctx *gms.Context, filters ...gms.Expression) (gms.IndexLookup, *gms.FuncDepSet, gms.Expression, bool, error) {
	pk := t.def.pkIndex
	if pk == nil || len(filters) < len(pk.ordinals) {
		return gms.IndexLookup{}, nil, nil, false, nil
	}
	var key gms.MySQLRange
	found := 0
	for _, filter := range filters {
		at, value, ok := t.keyEquality(ctx, pk, filter)
		if !ok {
			continue
		}
		if key == nil {
			key = make(gms.MySQLRange, len(pk.ordinals))
		}
		if key[at].LowerBound != nil {
			return gms.IndexLookup{}, nil, nil, false, nil
		}
		key[at] = gms.ClosedRangeColumnExpr(value, value, pk.codecs[at].Type())
		found++
	}
	if found < len(pk.ordinals) {
		return gms.IndexLookup{}, nil, nil, false, nil
	}
	return gms.IndexLookup{Index: pk, Ranges: gms.MySQLRangeCollection{key}, IsPointLookup: true}, t.def.oneRow, nil, true, nil
}

// keyEquality returns which column of the key a filter compares with which
// literal. Only literals that the column holds without conversion count.
func (t *Table) keyEquality(ctx *gms.Context, pk *index, filter gms.Expression) (at int, value any, ok bool) {
	eq, ok := filter.(*expression.Equals)
	if !ok {
		return 0, nil, false
	}
	field, ok := eq.Left().(*expression.GetField)
	other := eq.Right()
	if !ok {
		if field, ok = eq.Right().(*expression.GetField); !ok {
			return 0, nil, false
		}
		other = eq.Left()
	}
	lit, ok := other.(*expression.Literal)
	// Under an alias go-mysql-server would lose it on this path.
	if !ok || !strings.EqualFold(field.Table(), t.Name()) {
		return 0, nil, false
	}
	for i, ordinal := range pk.ordinals {
		if strings.EqualFold(field.Name(), t.def.schema[ordinal].Name) {
			return i, lit.Value(), holds(ctx, pk.codecs[i], lit.Value())
		}
	}
	return 0, nil, false
}

func holds(ctx *gms.Context, codec *sqltype.Codec, v any) bool {
	var d types.Datum
	return codec.Exact(v) && codec.Encode(ctx, v, sqltype.Location(ctx), &d) == nil
}

// oneRowDeps says of a table's columns that there is one row at most.
func oneRowDeps(schema gms.Schema) *gms.FuncDepSet {
	var all, notNull gms.ColSet
	for i, col := range schema {
		all.Add(gms.ColumnId(i + 1))
		if !col.Nullable {
			notNull.Add(gms.ColumnId(i + 1))
		}
	}
	return gms.NewMax1RowFDs(all, notNull)
}
