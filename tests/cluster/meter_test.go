package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/kv"
)

// TestMeter: what the meter of a build has counted is what the stores have received and sent, and it is within bounds.
func TestMeter(t *testing.T) {
	const rows = 60_000
	c := startCluster(t, nil)
	table := wideTable(t, c, rows)
	s := openDriver(t, openStorage(t, c))
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	var m kv.Meter
	ctx := kv.WithMeter(t.Context(), s, &m)
	received, sent := c.Received(), c.Sent()
	since := func(kind string) int64 { return c.Received()[kind] - received[kind] }

	idx := &model.IndexInfo{
		ID: 9, Name: pmodel.NewCIStr("i"), State: model.StateWriteReorganization,
		Columns: []*model.IndexColumn{{Name: table.Columns[1].Name, Offset: 1, Length: types.UnspecifiedLength}},
	}
	_, err = backfill.Run(ctx, backfill.Options{
		Store: s, TempDir: t.TempDir(), CheckpointInterval: time.Hour,
		SaveCheckpoint: func(context.Context, []byte) error { return nil },
	}, backfill.Spec{Task: encode.Task{JobID: 1, Table: table, Indexes: []*model.IndexInfo{idx}, TS: ts}})
	require.NoError(t, err)
	entries := kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(table.ID, idx.ID))
	_, err = s.Checksum(ctx, entries, ts)
	require.NoError(t, err)
	snap, err := s.Snapshot(ctx, ts)
	require.NoError(t, err)
	it, err := snap.Iter(entries) // whose requests have no context
	require.NoError(t, err)
	require.NoError(t, it.Close())
	require.NoError(t, snap.Close())

	costs := m.Costs()
	t.Logf("a build of %d rows: %+v", rows, costs)
	require.Equal(t, since("Coprocessor"), costs.Requests[kv.RequestRows]+costs.Requests[kv.RequestSums])
	require.Positive(t, costs.Requests[kv.RequestRows])
	require.Positive(t, costs.Requests[kv.RequestSums])
	require.Positive(t, costs.Requests[kv.RequestKeys])
	require.Equal(t, since("Scan")+since("Get")+since("BatchGet"), costs.Requests[kv.RequestKeys])
	require.Equal(t, since("SplitRegion"), costs.Requests[kv.RequestSplit])
	require.GreaterOrEqual(t, costs.Requests[kv.RequestImport], 2*since("MultiIngest"), "each file is a stream and a request to take it")
	require.LessOrEqual(t, costs.Requests[kv.RequestImport], since("MultiIngest")+since("Write"))
	require.Zero(t, costs.Requests[kv.RequestOther])

	wire := c.Sent() - sent
	require.InEpsilon(t, wire, costs.ReceivedBytes, 0.1, "the wire has frames, and answers of PD's side of the store")
	sum, err := s.Checksum(t.Context(), entries, ts)
	require.NoError(t, err)
	require.Equal(t, costs, m.Costs(), "without the meter's context nothing is counted")
	require.Greater(t, costs.SentBytes, sum.Bytes, "the entries were sent")
	require.Less(t, costs.SentBytes, 2*sum.Bytes)
	require.Positive(t, costs.StoreTime)
	require.LessOrEqual(t, costs.AllRequests(), int64(100), "three regions; an index that is one import")
}
