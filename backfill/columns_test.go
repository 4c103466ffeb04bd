package backfill

import (
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
)

// TestRowsOlderThanTheColumn: rows without a column get its origin default in
// the index.
func TestRowsOlderThanTheColumn(t *testing.T) {
	r := newRand(t)
	info, kinds := plainTable()
	f := newFixture(t, info, kinds)
	f.insert(r, 50)

	added := &model.ColumnInfo{
		ID: 9, Offset: 4, FieldType: *kindNamed("int").field(), State: model.StatePublic,
		Version: model.CurrLatestColumnInfoVersion, OriginDefaultValue: "42",
	}
	info.Columns = append(info.Columns, added)
	f.kinds = append(f.kinds, kindNamed("int"))
	for key, row := range f.rows {
		row.values = append(row.values, types.NewIntDatum(42))
		f.rows[key] = row
	}
	f.next = 1000
	f.insert(r, 50)
	idx := indexOn(9, false, 4)
	spec := f.spec(idx)
	_, err := Run(f.ctx, f.options(), spec)
	require.NoError(t, err)
	f.requireIndex(idx, spec.TS, "added column")
}
