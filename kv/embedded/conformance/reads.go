package conformance

import (
	"math"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikvrpc"
)

var readCases = []testCase{
	{"read/versions", testReadVersions},
	{"read/not_found", testReadNotFound},
	{"read/batch", testReadBatch},
	{"read/latest", testReadLatest},
	{"read/scan", testScan},
	{"read/scan_key_only", testScanKeyOnly},
	{"read/scan_reverse", testScanReverse},
	{"read/under_a_pessimistic_lock", testReadUnderPessimisticLock},
	{"read/under_a_lock_record", testReadUnderLockRecord},
	{"read/a_later_transaction_does_not_block", testReadLaterLock},
	{"read/pushes_a_prewritten_transaction", testReadPushes},
	{"read/scan_pushes_a_prewritten_transaction", testScanPushes},
	{"read/pushed_commit_names_the_primary_key", testPushedCommitNamesPrimary},
	{"read/latest_ignores_prewritten", testReadLatestPrewritten},
	{"read/rc_check_ts", testRCCheckTS},
}

func testReadVersions(t *testing.T, c *cluster) {
	before := c.ts()
	first := c.write(put("k", "1"))
	second := c.write(put("k", "2"))
	gone := c.write(del("k"))
	require.Empty(t, c.read("k", before))
	require.Empty(t, c.read("k", first-1))
	require.Equal(t, "1", c.read("k", first))
	require.Equal(t, "1", c.read("k", second-1))
	require.Equal(t, "2", c.read("k", second))
	require.Equal(t, "2", c.read("k", gone-1))
	require.Empty(t, c.read("k", gone))
	require.Empty(t, c.read("k", c.ts()))
	require.Empty(t, c.read("other", c.ts()))
}

func testReadNotFound(t *testing.T, c *cluster) {
	commitTS := c.write(put("k", "1"))
	require.True(t, c.get("k", commitTS-1).NotFound)
	require.False(t, c.get("k", commitTS).NotFound)
	require.True(t, c.get("k", c.write(del("k"))).NotFound)
}

func testReadBatch(t *testing.T, c *cluster) {
	c.write(put("a", "1"), put("b", "2"), put("c", "3"))
	c.write(del("b"))
	resp := call[*kvrpcpb.BatchGetResponse](c, tikvrpc.CmdBatchGet, []byte("a"),
		&kvrpcpb.BatchGetRequest{Keys: byteKeys([]string{"a", "b", "c", "d"}), Version: c.ts()})
	require.Nil(t, resp.Error)
	found := make(map[string]string)
	for _, p := range resp.Pairs {
		require.Nil(t, p.Error)
		found[string(p.Key)] = string(p.Value)
	}
	require.Equal(t, map[string]string{"a": "1", "c": "3"}, found)
}

func testReadLatest(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	require.Equal(t, "1", c.read("k", math.MaxUint64))
	c.write(put("k", "2"))
	require.Equal(t, "2", c.read("k", math.MaxUint64))
}

func testScan(t *testing.T, c *cluster) {
	c.write(put("a", "1"), put("b", "2"), put("c", "3"), put("d", "4"))
	ts := c.ts()
	c.write(del("b"), put("c", "5"), put("e", "6"))
	require.Equal(t, []string{"a=1", "b=2", "c=3", "d=4"}, pairs(c.scan("a", "", ts, nil)))
	now := c.ts()
	require.Equal(t, []string{"a=1", "c=5", "d=4", "e=6"}, pairs(c.scan("", "", now, nil)))
	require.Equal(t, []string{"c=5", "d=4"}, pairs(c.scan("b", "e", now, nil)))
	require.Equal(t, []string{"a=1", "c=5"}, pairs(c.scan("a", "", now, func(r *kvrpcpb.ScanRequest) { r.Limit = 2 })))
}

func testScanKeyOnly(t *testing.T, c *cluster) {
	c.write(put("a", "1"), put("b", "2"))
	require.Equal(t, []string{"a=", "b="}, pairs(c.scan("a", "d", c.ts(), func(r *kvrpcpb.ScanRequest) { r.KeyOnly = true })))
}

func testScanReverse(t *testing.T, c *cluster) {
	c.write(put("a", "1"), put("b", "2"), put("c", "3"), put("d", "4"))
	c.write(del("b"))
	// In reverse the scan starts below its start key and ends at its end key.
	resp := c.scan("d", "a", c.ts(), func(r *kvrpcpb.ScanRequest) { r.Reverse = true })
	require.Equal(t, []string{"c=3", "a=1"}, pairs(resp))
	resp = c.scan("z", "a", c.ts(), func(r *kvrpcpb.ScanRequest) { r.Reverse, r.Limit = true, 2 })
	require.Equal(t, []string{"d=4", "c=3"}, pairs(resp))
}

func testReadUnderPessimisticLock(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	start := c.ts()
	c.mustLock(start, start, "k")
	require.Equal(t, "1", c.read("k", c.ts()))
	require.Equal(t, []string{"k=1"}, pairs(c.scan("a", "z", c.ts(), nil)))
}

func testReadUnderLockRecord(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	c.mustPrewrite(c.ts(), lockOnly("k"))
	require.Equal(t, "1", c.read("k", c.ts()))
}

func testReadLaterLock(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	ts := c.ts()
	start := c.ts()
	c.mustPrewrite(start, put("k", "2"))
	require.Equal(t, "1", c.read("k", ts))
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, "1", c.read("k", ts))
}

// afterReading reads a key above a prewritten lock of transaction start, and resolves what the store says is in the way.
func (c *cluster) afterReading(start uint64, key string, read func(ts uint64) *kvrpcpb.KeyError) (ts uint64) {
	ts = c.ts()
	keyErr := read(ts)
	if keyErr == nil {
		return ts
	}
	require.Equal(c.t, start, keyErr.GetLocked().GetLockVersion())
	c.status(key, start, func(r *kvrpcpb.CheckTxnStatusRequest) { r.CallerStartTs = ts })
	return ts
}

func testReadPushes(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	start := c.ts()
	c.mustPrewrite(start, put("k", "2"))
	early := c.ts()
	c.afterReading(start, "k", func(ts uint64) *kvrpcpb.KeyError { return c.get("k", ts).Error })
	resp := c.commit(start, early, "k")
	require.NotNil(t, resp.Error.GetCommitTsExpired(), "a commit below what was read")
	require.Greater(t, resp.Error.CommitTsExpired.MinCommitTs, early)
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, "2", c.read("k", c.ts()))
}

func testPushedCommitNamesPrimary(t *testing.T, c *cluster) {
	start := c.ts()
	resp := c.prewrite(start, func(r *kvrpcpb.PrewriteRequest) { r.PrimaryLock = []byte("m") }, put("a", "1"), put("m", "1"), put("z", "1"))
	require.Empty(t, resp.Errors)
	early := c.ts()
	c.afterReading(start, "m", func(ts uint64) *kvrpcpb.KeyError { return c.get("m", ts).Error })
	require.Equal(t, "m", string(c.commit(start, early, "a", "m", "z").Error.GetCommitTsExpired().GetKey()))
}

func testScanPushes(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	start := c.ts()
	c.mustPrewrite(start, put("k", "2"))
	early := c.ts()
	ts := c.afterReading(start, "k", func(ts uint64) *kvrpcpb.KeyError {
		resp := c.scan("a", "z", ts, nil)
		if len(resp.Pairs) > 0 && resp.Pairs[0].Error != nil {
			return resp.Pairs[0].Error
		}
		return resp.Error
	})
	require.NotNil(t, c.commit(start, early, "k").Error.GetCommitTsExpired())
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, []string{"k=1"}, pairs(c.scan("a", "z", ts, nil)))
}

func testReadLatestPrewritten(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	start := c.ts()
	c.mustPrewrite(start, put("k", "2"))
	require.Equal(t, "1", c.read("k", math.MaxUint64))
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, "2", c.read("k", math.MaxUint64))
}

func testRCCheckTS(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	ts := c.ts()
	rc := c.route([]byte("k"))
	rc.IsolationLevel = kvrpcpb.IsolationLevel_RCCheckTS
	get := func() *kvrpcpb.GetResponse {
		return c.sendContext(tikvrpc.CmdGet, rc, &kvrpcpb.GetRequest{Key: []byte("k"), Version: ts}).(*kvrpcpb.GetResponse)
	}
	scan := func() *kvrpcpb.ScanResponse {
		req := &kvrpcpb.ScanRequest{StartKey: []byte("a"), Limit: 10, Version: ts}
		return c.sendContext(tikvrpc.CmdScan, rc, req).(*kvrpcpb.ScanResponse)
	}
	require.Equal(t, "1", string(get().Value))
	require.Equal(t, []string{"k=1"}, pairs(scan()))
	c.write(put("k", "2"))
	require.Equal(t, kvrpcpb.WriteConflict_RcCheckTs, get().Error.GetConflict().GetReason())
	require.Equal(t, kvrpcpb.WriteConflict_RcCheckTs, scan().Error.GetConflict().GetReason())
}
