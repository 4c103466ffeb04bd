package cluster

import (
	"context"
	"fmt"
	"strconv"
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
	require.Equal(t, since("Coprocessor"), costs.Requests.Rows+costs.Requests.Sums)
	require.Positive(t, costs.Requests.Rows)
	require.Positive(t, costs.Requests.Sums)
	require.Positive(t, costs.Requests.Keys)
	require.Equal(t, since("Scan")+since("Get")+since("BatchGet"), costs.Requests.Keys)
	require.Equal(t, since("SplitRegion"), costs.Requests.Splits)
	require.GreaterOrEqual(t, costs.Requests.Imports, 2*since("MultiIngest"), "each file is a stream and a request to take it")
	require.LessOrEqual(t, costs.Requests.Imports, since("MultiIngest")+since("Write"))
	require.Zero(t, costs.Requests.Others)

	wire := c.Sent() - sent
	require.InEpsilon(t, wire, costs.ReceivedBytes, 0.1, "the wire has frames, and answers of PD's side of the store")
	sum, err := s.Checksum(t.Context(), entries, ts)
	require.NoError(t, err)
	require.Equal(t, costs, m.Costs(), "without the meter's context nothing is counted")
	require.Greater(t, costs.SentBytes, sum.Bytes, "the entries were sent")
	require.Less(t, costs.SentBytes, 2*sum.Bytes)
	require.Positive(t, costs.StoreTime)
	require.LessOrEqual(t, costs.Requests.All(), int64(100), "three regions; an index that is one import")
}

// TestJobsKeepTheirCosts: what a job has cost the stores is in its row, that of parts which several nodes have built included.
func TestJobsKeepTheirCosts(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%t", shared), func(t *testing.T) {
			t.Parallel()
			c := anyCluster(t)
			var db client
			if shared {
				db = sharing(t, c, 2)[0].open()
			} else {
				db = startNode(t, c).open()
			}
			fill(db, "t", 5000)
			if !shared {
				db.exec("SET GLOBAL tidb_enable_dist_task = OFF")
			}
			db.exec("ALTER TABLE t ADD INDEX v (v)")
			costs := db.rows("SELECT store_requests, store_cpu_seconds > 0 AS worked, store_costs->'$.requests.rows' AS scans, " +
				"store_costs->'$.requests.imports' AS imports, store_costs->'$.sent_bytes' AS sent, store_costs->'$.received_bytes' AS received " +
				"FROM mysql.fastddl_ddl_jobs WHERE db_name = DATABASE() ORDER BY job_id DESC LIMIT 1")[0]
			t.Logf("%v", costs)
			number := func(column string) int {
				n, err := strconv.Atoi(costs[column])
				require.NoError(t, err, "%s: %v", column, costs)
				return n
			}
			require.Equal(t, "1", costs["worked"])
			require.GreaterOrEqual(t, number("scans"), 5, "one for each region")
			require.GreaterOrEqual(t, number("imports"), 2)
			require.Greater(t, number("sent"), 5000*(8+8), "the values and handles of the entries")
			require.Greater(t, number("received"), 5000*2)
			require.Greater(t, number("store_requests"), number("scans")+number("imports"))
			require.Less(t, number("store_requests"), 2000)
		})
	}
}
