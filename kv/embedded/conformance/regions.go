package conformance

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/util/codec"
)

var regionCases = []testCase{
	{"region/split", testSplit},
	{"region/splits_at_once", testSplitsAtOnce},
	{"region/stale_epoch", testStaleEpoch},
	{"region/key_not_in_region", testKeyNotInRegion},
	{"region/not_found", testRegionNotFound},
	{"region/transaction_over_regions", testTransactionOverRegions},
}

var adminCases = []testCase{
	{"admin/mvcc_by_key", testMvccByKey},
	{"admin/destroy_range", testDestroyRange},
	{"admin/delete_range", testDeleteRange},
	{"admin/safe_ts", testSafeTS},
}

var pdCases = []testCase{
	{"pd/timestamps", testTimestamps},
	{"pd/regions", testPDRegions},
	{"pd/stores", testPDStores},
	{"pd/gc_safe_point", testGCSafePoint},
	{"pd/service_safe_points", testServiceSafePoints},
	{"pd/resource_groups", testResourceGroups},
	{"pd/global_config", testGlobalConfig},
	{"pd/external_timestamp", testExternalTimestamp},
}

func (c *cluster) split(keys ...string) *kvrpcpb.SplitRegionResponse {
	return call[*kvrpcpb.SplitRegionResponse](c, tikvrpc.CmdSplitRegion, []byte(keys[0]),
		&kvrpcpb.SplitRegionRequest{SplitKeys: byteKeys(keys)})
}

func testSplit(t *testing.T, c *cluster) {
	c.write(put("a", "1"), put("m", "2"), put("z", "3"))
	resp := c.split("g", "p")
	require.Len(t, resp.Regions, 3)
	ctx := context.Background()
	a, err := c.pd.GetRegion(ctx, codec.EncodeBytes(nil, []byte("a")))
	require.NoError(t, err)
	m, err := c.pd.GetRegion(ctx, codec.EncodeBytes(nil, []byte("m")))
	require.NoError(t, err)
	require.NotEqual(t, a.Meta.Id, m.Meta.Id)
	require.Equal(t, a.Meta.EndKey, m.Meta.StartKey)
	for key, value := range map[string]string{"a": "1", "m": "2", "z": "3"} {
		require.Equal(t, value, c.read(key, c.ts()))
	}
	require.Equal(t, []string{"m=2"}, pairs(c.scan("g", "", c.ts(), nil)), "a scan ends with its region")
}

// testSplitsAtOnce: an answer has one region more than the request has keys, also if other requests
// split the region at the same time. TiDB's client scatters them by the keys.
func testSplitsAtOnce(t *testing.T, c *cluster) {
	for round := range 200 {
		rc := c.route(fmt.Appendf(nil, "%03d", round))
		var both sync.WaitGroup
		answers := make([]*kvrpcpb.SplitRegionResponse, 2)
		for i := range answers {
			both.Go(func() {
				keys := [][]byte{fmt.Appendf(nil, "%03d_%d", round, i), fmt.Appendf(nil, "%03d_%d", round, i+2)}
				answers[i] = c.sendContext(tikvrpc.CmdSplitRegion, rc, &kvrpcpb.SplitRegionRequest{SplitKeys: keys}).(*kvrpcpb.SplitRegionResponse)
			})
		}
		both.Wait()
		done := 0
		for _, resp := range answers {
			if resp.RegionError != nil {
				require.NotNil(t, resp.RegionError.GetEpochNotMatch())
				continue
			}
			done++
			require.Len(t, resp.Regions, 3)
		}
		require.Positive(t, done)
	}
}

func testStaleEpoch(t *testing.T, c *cluster) {
	stale := c.route([]byte("a"))
	c.split("g")
	resp := c.sendContext(tikvrpc.CmdGet, stale, &kvrpcpb.GetRequest{Key: []byte("a"), Version: c.ts()}).(*kvrpcpb.GetResponse)
	require.NotNil(t, resp.RegionError.GetEpochNotMatch())
	require.NotEmpty(t, resp.RegionError.EpochNotMatch.CurrentRegions)
	require.Equal(t, stale.RegionId, resp.RegionError.EpochNotMatch.CurrentRegions[0].Id)
}

func testKeyNotInRegion(t *testing.T, c *cluster) {
	c.split("g")
	rc := c.route([]byte("a"))
	resp := c.sendContext(tikvrpc.CmdGet, rc, &kvrpcpb.GetRequest{Key: []byte("z"), Version: c.ts()}).(*kvrpcpb.GetResponse)
	require.NotNil(t, resp.RegionError.GetKeyNotInRegion())
}

func testRegionNotFound(t *testing.T, c *cluster) {
	rc := c.route([]byte("a"))
	rc.RegionId = math.MaxUint32
	resp := c.sendContext(tikvrpc.CmdGet, rc, &kvrpcpb.GetRequest{Key: []byte("a"), Version: c.ts()}).(*kvrpcpb.GetResponse)
	require.NotNil(t, resp.RegionError.GetRegionNotFound())
}

func testTransactionOverRegions(t *testing.T, c *cluster) {
	c.split("g")
	start := c.ts()
	c.mustPrewrite(start, put("a", "1"))
	c.prewrite(start, func(r *kvrpcpb.PrewriteRequest) { r.PrimaryLock = []byte("a") }, put("z", "2"))
	commitTS := c.ts()
	c.mustCommit(start, commitTS, "a")
	c.mustCommit(start, commitTS, "z")
	require.Equal(t, "1", c.read("a", commitTS))
	require.Equal(t, "2", c.read("z", commitTS))
}

func testMvccByKey(t *testing.T, c *cluster) {
	first := c.write(put("k", "1"))
	second := c.write(del("k"))
	start := c.ts()
	c.mustPrewrite(start, put("k", "2"))
	resp := call[*kvrpcpb.MvccGetByKeyResponse](c, tikvrpc.CmdMvccGetByKey, []byte("k"), &kvrpcpb.MvccGetByKeyRequest{Key: []byte("k")})
	require.Empty(t, resp.Error)
	require.Equal(t, start, resp.Info.GetLock().GetStartTs())
	var times []uint64
	for _, w := range resp.Info.Writes {
		times = append(times, w.CommitTs)
	}
	require.Equal(t, []uint64{second, first}, times, "newest first")
	require.Equal(t, kvrpcpb.Op_Del, resp.Info.Writes[0].Type)
	require.Equal(t, kvrpcpb.Op_Put, resp.Info.Writes[1].Type)
}

func testDestroyRange(t *testing.T, c *cluster) {
	c.write(put("a", "1"), put("b", "1"), put("c", "1"))
	ts := c.ts()
	resp := c.sendContext(tikvrpc.CmdUnsafeDestroyRange, kvrpcpb.Context{},
		&kvrpcpb.UnsafeDestroyRangeRequest{StartKey: []byte("b"), EndKey: []byte("c")}).(*kvrpcpb.UnsafeDestroyRangeResponse)
	require.Empty(t, resp.Error)
	require.Equal(t, []string{"a=1", "c=1"}, pairs(c.scan("a", "z", ts, nil)), "the past is gone too")
}

func testDeleteRange(t *testing.T, c *cluster) {
	c.write(put("a", "1"), put("b", "1"))
	resp := call[*kvrpcpb.DeleteRangeResponse](c, tikvrpc.CmdDeleteRange, []byte("a"),
		&kvrpcpb.DeleteRangeRequest{StartKey: []byte("a"), EndKey: []byte("b")})
	require.Empty(t, resp.Error)
	require.Equal(t, []string{"b=1"}, pairs(c.scan("a", "z", c.ts(), nil)))
}

func testSafeTS(t *testing.T, c *cluster) {
	now := c.ts()
	resp := c.sendContext(tikvrpc.CmdStoreSafeTS, kvrpcpb.Context{}, &kvrpcpb.StoreSafeTSRequest{}).(*kvrpcpb.StoreSafeTSResponse)
	require.LessOrEqual(t, resp.SafeTs, c.ts())
	require.Greater(t, resp.SafeTs, uint64(0))
	require.NotZero(t, now)
}

func testTimestamps(t *testing.T, c *cluster) {
	last := uint64(0)
	for range 1000 {
		ts := c.ts()
		require.Greater(t, ts, last)
		last = ts
	}
	physical, logical, err := c.pd.GetTSAsync(context.Background()).Wait()
	require.NoError(t, err)
	require.Greater(t, oracle.ComposeTS(physical, logical), last)
	require.InDelta(t, time.Now().UnixMilli(), physical, float64(time.Minute/time.Millisecond))
}

func testPDRegions(t *testing.T, c *cluster) {
	c.split("g", "p")
	ctx := context.Background()
	//lint:ignore SA1019 clients still use it
	regions, err := c.pd.ScanRegions(ctx, nil, nil, 0)
	require.NoError(t, err)
	require.Len(t, regions, 3)
	require.Empty(t, regions[0].Meta.StartKey)
	require.Empty(t, regions[2].Meta.EndKey)
	for i, r := range regions {
		require.Len(t, r.Meta.Peers, 1)
		require.NotNil(t, r.Leader)
		again, err := c.pd.GetRegionByID(ctx, r.Meta.Id)
		require.NoError(t, err)
		require.Equal(t, r.Meta.StartKey, again.Meta.StartKey)
		if i > 0 {
			require.Equal(t, regions[i-1].Meta.EndKey, r.Meta.StartKey)
			before, err := c.pd.GetPrevRegion(ctx, r.Meta.StartKey)
			require.NoError(t, err)
			require.Equal(t, regions[i-1].Meta.Id, before.Meta.Id)
		}
	}
	//lint:ignore SA1019 clients still use it
	regions, err = c.pd.ScanRegions(ctx, codec.EncodeBytes(nil, []byte("h")), nil, 1)
	require.NoError(t, err)
	require.Len(t, regions, 1)
	require.Equal(t, codec.EncodeBytes(nil, []byte("g")), regions[0].Meta.StartKey)
}

func testPDStores(t *testing.T, c *cluster) {
	ctx := context.Background()
	stores, err := c.pd.GetAllStores(ctx)
	require.NoError(t, err)
	require.Len(t, stores, 1)
	one, err := c.pd.GetStore(ctx, stores[0].Id)
	require.NoError(t, err)
	require.Equal(t, stores[0].Address, one.Address)
}

func testGCSafePoint(t *testing.T, c *cluster) {
	ctx := context.Background()
	first := c.write(put("k", "1"))
	c.write(put("k", "2"))
	now := c.ts()
	sp, err := c.pd.UpdateGCSafePoint(ctx, now)
	require.NoError(t, err)
	require.Equal(t, now, sp)
	sp, err = c.pd.UpdateGCSafePoint(ctx, first)
	require.NoError(t, err)
	require.Equal(t, now, sp, "it never goes back")
	require.Equal(t, "2", c.read("k", c.ts()))
}

func testServiceSafePoints(t *testing.T, c *cluster) {
	ctx := context.Background()
	low, high := c.ts(), c.ts()
	lowest, err := c.pd.UpdateServiceGCSafePoint(ctx, "one", 1000, high)
	require.NoError(t, err)
	require.Equal(t, high, lowest)
	lowest, err = c.pd.UpdateServiceGCSafePoint(ctx, "two", math.MaxInt64, low)
	require.NoError(t, err)
	require.Equal(t, low, lowest)
	lowest, err = c.pd.UpdateServiceGCSafePoint(ctx, "one", 1000, c.ts())
	require.NoError(t, err)
	require.Equal(t, low, lowest)
	_, err = c.pd.UpdateServiceGCSafePoint(ctx, "two", 0, 0)
	require.NoError(t, err)
	lowest, err = c.pd.UpdateServiceGCSafePoint(ctx, "three", 1000, c.ts())
	require.NoError(t, err)
	require.Greater(t, lowest, high)
}

func testResourceGroups(t *testing.T, c *cluster) {
	ctx := context.Background()
	groups, err := c.pd.ListResourceGroups(ctx)
	require.NoError(t, err)
	require.Len(t, groups, 1)
	require.Equal(t, "default", groups[0].Name)
	group, err := c.pd.GetResourceGroup(ctx, "default")
	require.NoError(t, err)
	other := *group
	other.Name = "other"
	_, err = c.pd.AddResourceGroup(ctx, &other)
	require.NoError(t, err)
	_, err = c.pd.AddResourceGroup(ctx, &other)
	require.Error(t, err)
	other.Priority = 1
	_, err = c.pd.ModifyResourceGroup(ctx, &other)
	require.NoError(t, err)
	group, err = c.pd.GetResourceGroup(ctx, "other")
	require.NoError(t, err)
	require.EqualValues(t, 1, group.Priority)
	_, err = c.pd.DeleteResourceGroup(ctx, "other")
	require.NoError(t, err)
	_, err = c.pd.GetResourceGroup(ctx, "other")
	require.Error(t, err)
}

func testGlobalConfig(t *testing.T, c *cluster) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watch, err := c.pd.WatchGlobalConfig(ctx, "", 0)
	require.NoError(t, err)
	require.NoError(t, c.pd.StoreGlobalConfig(ctx, "", configItems("name", "value")))
	items := <-watch
	require.Len(t, items, 1)
	require.Equal(t, "value", items[0].Value)
	loaded, _, err := c.pd.LoadGlobalConfig(ctx, []string{"name"}, "")
	require.NoError(t, err)
	require.Len(t, loaded, 1)
	require.Equal(t, "value", loaded[0].Value)
}

func testExternalTimestamp(t *testing.T, c *cluster) {
	ctx := context.Background()
	ts := c.ts()
	require.NoError(t, c.pd.SetExternalTimestamp(ctx, ts))
	got, err := c.pd.GetExternalTimestamp(ctx)
	require.NoError(t, err)
	require.Equal(t, ts, got)
	require.Error(t, c.pd.SetExternalTimestamp(ctx, ts-1))
	require.Error(t, c.pd.SetExternalTimestamp(ctx, c.ts()+1<<30))
}
