package encode

import (
	"math/rand/v2"
	"testing"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
)

// FuzzIndexEntries: the entry of a row is that which TiDB makes of it, for any text in
// the row and any column types of the seed.
func FuzzIndexEntries(f *testing.F) {
	f.Add(uint64(1), "text", int64(7))
	f.Add(uint64(2), "ẞ\xff\x00", int64(-1))
	f.Add(uint64(99), "  ", int64(0))
	f.Fuzz(func(t *testing.T, seed uint64, text string, handle int64) {
		r := rand.New(rand.NewPCG(seed, 3))
		table, idx, kinds := backfilltest.RandomTable(r)
		p, err := NewProjection(&Task{Table: table, Indexes: []*model.IndexInfo{idx}})
		require.NoError(t, err)
		enc, err := newIndexEncoder(idx, p)
		require.NoError(t, err)
		row := backfilltest.RandomRow(r, table, kinds)
		for i, kind := range kinds {
			if kind.Text && row[i].Kind() == types.KindString {
				row[i].SetString(text, row[i].Collation())
			}
		}
		h := backfilltest.RowHandle(t, table, row, handle)
		enc.bind(batchOf(p, table, [][]types.Datum{row}, []tkv.Handle{h}), table.ID)
		require.NoError(t, enc.Encode(func(_ int, kv []byte, klen int) error {
			key, value, _ := backfilltest.LibraryEntry(t, table, idx, row, h)
			what := backfilltest.Describe(table, idx, kinds)
			require.Equal(t, []byte(key[PrefixLen:]), append([]byte{}, kv[:klen]...), what)
			require.Equal(t, value, append([]byte{}, kv[klen:]...), what)
			return nil
		}))
	})
}
