package backfill

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/kv"
)

// skewedStore hands out rows that are not those of the table.
type skewedStore struct {
	kv.Store
	skew func(table int64, b *kv.RowBatch)
}

func (s *skewedStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		s.skew(tablecodec.DecodeTableID(req.Range.Start), b)
		return fn(b)
	})
}

// skewValues changes the values of the first column of rows with handles from first on.
func skewValues(b *kv.RowBatch, first int64) {
	for i, h := range b.IntHandles {
		if h >= first {
			b.Rows.Column(0).Int64s()[i]++
		}
	}
}

// TestSpotCheck: what a scan does wrong to many rows is found, though as many entries are stored as
// there are rows, and as they were built.
func TestSpotCheck(t *testing.T) {
	const rows = 20_000
	idx := backfilltest.IndexOn(9, false, 1)
	for name, skew := range map[string]func(b *kv.RowBatch){
		"values":              func(b *kv.RowBatch) { skewValues(b, math.MinInt64) },
		"values, in the last": func(b *kv.RowBatch) { skewValues(b, rows*7/8) },
		"handles": func(b *kv.RowBatch) {
			for i := range b.IntHandles {
				b.IntHandles[i]++
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, kinds := backfilltest.PlainTable()
			f := newFixture(t, table, kinds)
			f.Load(rows)
			opts := f.options()
			opts.Store = &skewedStore{f.Store, func(_ int64, b *kv.RowBatch) { skew(b) }}
			spec := f.spec(idx)
			res, err := Run(f.Ctx, opts, spec)
			var wrong *compare.EntryError
			require.ErrorAs(t, err, &wrong)
			require.True(t, res.Rebuilt)
			require.NotEqual(t, wrong.Want, wrong.Got)
			f.ReadRows(spec.TS)
			want := f.WantEntries(idx)
			require.Contains(t, want, string(wrong.Key))
			require.Equal(t, want[string(wrong.Key)], string(wrong.Want))
		})
	}
	t.Run("one partition", func(t *testing.T) {
		p := newPartitioned(t, backfilltest.Rand(t), 5, 300)
		full := slices.IndexFunc(p.parts, func(f *backfilltest.Fixture) bool { return len(f.Rows) > 0 })
		opts := p.options()
		opts.Store = &skewedStore{p.Store, func(table int64, b *kv.RowBatch) {
			if table == p.parts[full].Table.ID {
				for i := range b.IntHandles { // values may be NULL in all rows that are looked up
					b.IntHandles[i]++
				}
			}
		}}
		_, err := Run(p.Ctx, opts, p.spec(idx))
		var wrong *compare.EntryError
		require.ErrorAs(t, err, &wrong)
	})
}
