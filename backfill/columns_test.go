package backfill

import (
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
)

// TestRowsOlderThanTheColumn: rows without a column get its origin default in
// the index.
func TestRowsOlderThanTheColumn(t *testing.T) {
	r := backfilltest.Rand(t)
	info, kinds := backfilltest.PlainTable()
	f := newFixture(t, info, kinds)
	f.Insert(r, 50)

	added := &model.ColumnInfo{
		ID: 9, Offset: 4, FieldType: *backfilltest.KindNamed("int").Field(), State: model.StatePublic,
		Version: model.CurrLatestColumnInfoVersion, OriginDefaultValue: "42",
	}
	info.Columns = append(info.Columns, added)
	f.Kinds = append(f.Kinds, backfilltest.KindNamed("int"))
	for key, row := range f.Rows {
		row.Values = append(row.Values, types.NewIntDatum(42))
		f.Rows[key] = row
	}
	f.Next = 1000
	f.Insert(r, 50)
	idx := backfilltest.IndexOn(9, false, 4)
	spec := f.spec(idx)
	_, err := Run(f.Ctx, f.options(), spec)
	require.NoError(t, err)
	f.RequireIndex(idx, spec.TS, "added column")
}
