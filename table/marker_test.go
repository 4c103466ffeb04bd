package table

import (
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
)

// When a put into a unique index in the making leaves a marker.
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

		_, err = tbl.UpdateRecord(t.Context(), txn, h, row(1, 6, "c"), row(1, nil, "c"))
		require.NoError(t, err)
		require.Empty(t, markers(t, tbl, txn), "NULL is not unique")

		// The row comes from before the index: its entry is not there yet.
		old := newFakeTxn()
		require.NoError(t, tbl.RemoveRecord(t.Context(), old, tkv.IntHandle(9), row(9, 1, "x")))
		_, err = tbl.AddRecord(t.Context(), old, row(10, 1, "X"), AddOptions{})
		require.NoError(t, err)
		require.Empty(t, markers(t, tbl, old), "a key that this transaction took from its row is free")
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
