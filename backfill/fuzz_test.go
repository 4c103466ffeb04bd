package backfill

import (
	"testing"

	"github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
)

// FuzzCheckpoints: what is stored as a checkpoint is of this build, or of another one,
// or an error; what is of this build can be stored again and names parts of the table.
func FuzzCheckpoints(f *testing.F) {
	log.SetLevel(zapcore.FatalLevel) // TiDB's codec logs every bad key
	table, _ := backfilltest.PlainTable()
	spec := &encode.Task{JobID: 1, Table: table, TS: 5, Indexes: []*model.IndexInfo{{ID: 9}}}
	r := encode.RecordRange(table.ID)
	cp := &checkpoint{TS: 5, Indexes: []checkpointIndex{{ID: 9, Totals: ingest.Totals{Entries: 3, Checksum: 4}}}, Rows: 3, Weight: 10}
	cp.Remaining = []keyrange.StoredWeighted{{Start: r.Start, End: r.End, Weight: 7}}
	scanning, err := cp.encode(maxCheckpointBytes)
	require.NoError(f, err)
	cp.Verify = &checkpointVerify{Totals: make([]ingest.Totals, 1), Remaining: []keyrange.StoredIndexed{{Start: r.Start, End: r.End}}}
	verifying, err := cp.encode(maxCheckpointBytes)
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
			require.Equal(t, table.ID, task.PhysicalID())
		}
		if cp.Verify != nil {
			for _, left := range cp.Verify.Remaining {
				require.Less(t, left.Index, len(spec.Indexes))
			}
		}
		again, err := cp.encode(maxCheckpointBytes)
		require.NoError(t, err)
		same, err := decodeCheckpoint(again, spec)
		require.NoError(t, err)
		require.Equal(t, cp.wanted(), same.wanted())
	})
}
