package backfill

import (
	"math/rand/v2"
	"testing"

	"github.com/pingcap/log"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"fastddl/ingest"
)

// FuzzCheckpoints: what is stored as a checkpoint is of this build, or of another one,
// or an error; what is of this build can be stored again and names parts of the table.
func FuzzCheckpoints(f *testing.F) {
	log.SetLevel(zapcore.FatalLevel) // TiDB's codec tells of every bad key
	table, _ := plainTable()
	spec := &Task{JobID: 1, Table: table, TS: 5, Indexes: []*model.IndexInfo{{ID: 9}}}
	r := recordRange(table.ID)
	cp := &checkpoint{TS: 5, Indexes: []checkpointIndex{{ID: 9, Totals: ingest.Totals{Entries: 3, Checksum: 4}}}, Rows: 3, Weight: 10}
	cp.Remaining = []checkpointTask{{Start: r.Start, End: r.End, Weight: 7}}
	scanning, err := cp.encode()
	require.NoError(f, err)
	cp.Verify = &checkpointVerify{Totals: make([]ingest.Totals, 1), Remaining: []checkpointRange{{Start: r.Start, End: r.End}}}
	verifying, err := cp.encode()
	require.NoError(f, err)
	f.Add(scanning)
	f.Add(verifying)
	f.Add([]byte(`{"ts":5,"indexes":[{"id":9}],"remaining":[{"start":"","end":"AA=="}],"verify":{"totals":[{}],"remaining":[{"index":7}]}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cp, err := decodeCheckpoint(data, spec)
		if err != nil || cp == nil {
			return
		}
		require.Len(t, cp.wanted(), len(spec.Indexes))
		for _, task := range cp.tasks() {
			require.Equal(t, table.ID, task.physicalID())
		}
		if cp.Verify != nil {
			for _, left := range cp.Verify.Remaining {
				require.Less(t, left.Index, len(spec.Indexes))
			}
		}
		again, err := cp.encode()
		require.NoError(t, err)
		same, err := decodeCheckpoint(again, spec)
		require.NoError(t, err)
		require.Equal(t, cp.wanted(), same.wanted())
	})
}

// FuzzIndexEntries: the entry of a row is that which TiDB makes of it, whatever is in the
// row's text and whichever column types the seed gives.
func FuzzIndexEntries(f *testing.F) {
	f.Add(uint64(1), "text", int64(7))
	f.Add(uint64(2), "ẞ\xff\x00", int64(-1))
	f.Add(uint64(99), "  ", int64(0))
	f.Fuzz(func(t *testing.T, seed uint64, text string, handle int64) {
		r := rand.New(rand.NewPCG(seed, 3))
		table, idx, kinds := randomTable(r)
		p, err := newProjection(&Task{Table: table, Indexes: []*model.IndexInfo{idx}})
		require.NoError(t, err)
		enc, err := newIndexEncoder(idx, p)
		require.NoError(t, err)
		row := randomRow(r, table, kinds)
		for i, kind := range kinds {
			if kind.str && row[i].Kind() == types.KindString {
				row[i].SetString(text, row[i].Collation())
			}
		}
		h := rowHandle(t, table, row, handle)
		enc.bind(batchOf(p, table, [][]types.Datum{row}, []tkv.Handle{h}), table.ID)
		require.NoError(t, enc.encode(func(_ int, kv []byte, klen int) error {
			key, value, _ := libraryEntry(t, table, idx, row, h)
			what := describe(table, idx, kinds)
			require.Equal(t, []byte(key[indexPrefixLen:]), append([]byte{}, kv[:klen]...), what)
			require.Equal(t, value, append([]byte{}, kv[klen:]...), what)
			return nil
		}))
	})
}
