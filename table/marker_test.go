package table

import (
	"maps"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
)

// When a put into a unique index in the making leaves a marker.
// entryOf is the entry of a row in the table's only index.
func (t *Table) entryOf(tb testing.TB, row []types.Datum, id int64) indexEntry {
	tb.Helper()
	e, err := t.entry(t.newIndex(t.meta.Indices[0]), row, tkv.IntHandle(id))
	require.NoError(tb, err)
	return e
}

func TestMarkers(t *testing.T) {
	newTable := func(t *testing.T, state model.SchemaState, backfill model.BackfillState) *Table {
		b := buildTable("t").column("id", bigint()).column("a", bigint()).column("s", varchar(20, "utf8mb4_general_ci")).
			clustered(ic(0)).index("u", true, state, ic(1), ic(2))
		b.info.Indices[0].BackfillState = backfill
		return b.table(t)
	}
	// markers returns the texts of the entries that have a marker.
	markers := func(t *testing.T, tbl *Table, txn *fakeTxn) (out []string) {
		idx := tbl.Meta().Indices[0]
		r := MarkerRange(tbl.Meta().ID, idx.ID)
		require.False(t, tbl.IndexRange(idx).Contains(r.Start))
		for key, value := range txn.data {
			if !r.Contains([]byte(key)) {
				continue
			}
			require.True(t, txn.unchecked[key])
			entryKey, ts, err := DecodeMarker(tbl.Meta().ID, idx.ID, []byte(key))
			require.NoError(t, err)
			require.Equal(t, txn.StartTS(), ts)
			require.Equal(t, txn.data[string(entryKey)], value, "a marker is about an entry that is put")
			text, err := tbl.EntryText(idx, entryKey, value, time.UTC)
			require.NoError(t, err)
			out = append(out, text)
		}
		return out
	}
	for _, state := range []model.SchemaState{model.StateWriteOnly, model.StateWriteReorganization} {
		tbl := newTable(t, state, model.BackfillStateRunning)
		txn := newFakeTxn()
		h, err := tbl.AddRecord(t.Context(), txn, row(1, 5, "Ab "), AddOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"5-Ab "}, markers(t, tbl, txn))

		_, err = tbl.UpdateRecord(t.Context(), txn, h, row(1, 5, "Ab "), row(1, 6, "c"))
		require.NoError(t, err)
		require.Equal(t, []string{"6-c"}, markers(t, tbl, txn), "what is taken back collides with nobody")
		require.Len(t, txn.writes, 3, "the row, its entry, the marker: a row that has had the key all along keeps its entry")

		_, err = tbl.UpdateRecord(t.Context(), txn, h, row(1, 6, "c"), row(1, nil, "c"))
		require.NoError(t, err)
		require.Empty(t, markers(t, tbl, txn), "NULL is not unique")

		// The row comes from before the index: its entry is not there yet.
		old := newFakeTxn()
		require.NoError(t, tbl.RemoveRecord(t.Context(), old, tkv.IntHandle(9), row(9, 1, "x")))
		_, err = tbl.AddRecord(t.Context(), old, row(10, 1, "X"), AddOptions{})
		require.NoError(t, err)
		require.Empty(t, markers(t, tbl, old), "a key that this transaction took from its row is free")

		// The other way round, and then back again.
		before := newFakeTxn()
		_, err = tbl.AddRecord(t.Context(), before, row(10, 1, "X"), AddOptions{})
		require.NoError(t, err)
		put := maps.Clone(before.data)
		require.NoError(t, tbl.RemoveRecord(t.Context(), before, tkv.IntHandle(9), row(9, 1, "x")))
		require.Empty(t, markers(t, tbl, before), "nobody else has the key any more")
		entry := tbl.entryOf(t, row(10, 1, "X"), 10)
		require.Equal(t, put[string(entry.key)], before.data[string(entry.key)], "the entry of the row that has the key now stays")
		require.NoError(t, tbl.RemoveRecord(t.Context(), before, tkv.IntHandle(10), row(10, 1, "X")))
		_, err = tbl.AddRecord(t.Context(), before, row(11, 1, "X"), AddOptions{})
		require.NoError(t, err)
		require.Empty(t, markers(t, tbl, before), "the key is the transaction's own")

		// What is taken back does not make the key the transaction's own.
		again := newFakeTxn()
		for id := range int64(3) {
			_, err = tbl.AddRecord(t.Context(), again, row(id, 1, "x"), AddOptions{})
			require.NoError(t, err)
			require.Equal(t, []string{"1-x"}, markers(t, tbl, again))
			require.NoError(t, tbl.RemoveRecord(t.Context(), again, tkv.IntHandle(id), row(id, 1, "x")))
			require.Empty(t, markers(t, tbl, again))
			require.False(t, again.Written(tbl.entryOf(t, row(id, 1, "x"), id).key))
		}
	}
	for _, tbl := range []*Table{
		newTable(t, model.StateDeleteOnly, model.BackfillStateRunning),
		newTable(t, model.StateWriteOnly, model.BackfillStateInapplicable), // being dropped
		newTable(t, model.StateWriteReorganization, model.BackfillStateReadyToMerge),
		newTable(t, model.StatePublic, model.BackfillStateInapplicable),
	} {
		txn := newFakeTxn()
		_, err := tbl.AddRecord(t.Context(), txn, types.MakeDatums(1, 5, "x"), AddOptions{})
		require.NoError(t, err)
		require.Empty(t, markers(t, tbl, txn))
	}
	_, _, err := DecodeMarker(1, 2, []byte("short"))
	require.Error(t, err)
}
