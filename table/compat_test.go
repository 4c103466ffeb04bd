package table

import (
	"math/rand"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/errctx"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
)

// Our entries are TiDB's own, byte for byte.
func TestEntriesEqualTiDBs(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	collations := []string{"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"}
	length := func() int { return []int{types.UnspecifiedLength, 1, 3}[rng.Intn(3)] }
	for range 500 {
		b := buildTable("t").column("id", bigint()).
			column("s", varchar(20, collations[rng.Intn(3)])).
			column("u", varchar(20, collations[rng.Intn(3)])).
			column("k", bigint())
		switch rng.Intn(3) {
		case 0:
			b.clustered(ic(0))
		case 1:
			b.clustered(prefix(1, length()), ic(0))
		}
		offsets := rng.Perm(4)[:1+rng.Intn(3)]
		var cols []*model.IndexColumn
		for _, off := range offsets {
			n := types.UnspecifiedLength
			if off == 1 || off == 2 {
				n = length()
			}
			cols = append(cols, prefix(off, n))
		}
		b.index("x", rng.Intn(2) == 0, model.StatePublic, cols...)
		tbl := b.table(t)
		idx := b.info.Indices[len(b.info.Indices)-1]

		words := []string{"", "a", "A ", "abc  ", "ÄBCD", "日本語"}
		r := row(rng.Int63n(100), words[rng.Intn(6)], words[rng.Intn(6)], rng.Int63n(100))
		if rng.Intn(3) == 0 {
			r[3] = types.Datum{}
		}
		full, err := tbl.fullRow(r, tbl.defaults)
		require.NoError(t, err)
		txn := newFakeTxn()
		h, err := tbl.AddRecord(t.Context(), txn, r, AddOptions{RowID: 9})
		require.NoError(t, err)

		var restored []types.Datum
		if b.info.IsCommonHandle {
			restored = tables.TryGetHandleRestoredDataWrapper(b.info, full, nil, idx)
		}
		tidx := tables.NewIndex(b.info.ID, b.info, idx)
		gen := tidx.GenIndexKVIter(errctx.StrictNoWarningContext, time.UTC, tbl.newIndex(idx).values(full), h, restored)
		require.True(t, gen.Valid())
		key, value, distinct, err := gen.Next(nil, nil)
		require.NoError(t, err)

		gotKey, gotValue, gotDistinct, err := tbl.IndexEntry(idx, r, h)
		require.NoError(t, err)
		require.Equal(t, []byte(key), gotKey)
		require.Equal(t, value, gotValue)
		require.Equal(t, distinct, gotDistinct)
		require.Equal(t, value, txn.data[string(key)])
	}
}
