package placement

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	rmpb "github.com/pingcap/kvproto/pkg/resource_manager"
	"github.com/stretchr/testify/require"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"

	"fastddl/kv/pebblekv"
)

func openPD(t *testing.T, fs vfs.FS) (*Client, *pebblekv.Store) {
	t.Helper()
	store, err := pebblekv.Open("db", pebblekv.Options{FS: fs, GCRunInterval: func() time.Duration { return 0 }})
	require.NoError(t, err)
	c, err := NewClient(t.Context(), store, NewRegions(1), Options{Address: "here", Version: "8.5.0", Logger: zap.NewNop()})
	require.NoError(t, err)
	return c, store
}

func closePD(t *testing.T, c *Client, store *pebblekv.Store) {
	t.Helper()
	<-c.Stop()
	require.NoError(t, store.Close())
}

// TestDurable checks that what PD keeps outlives the process.
func TestDurable(t *testing.T) {
	fs := vfs.NewMem()
	ctx := t.Context()
	c, store := openPD(t, fs)
	id := c.GetClusterID(ctx)
	require.NotZero(t, id)
	ts, err := store.CurrentTS(ctx)
	require.NoError(t, err)
	_, err = c.UpdateGCSafePoint(ctx, ts)
	require.NoError(t, err)
	_, err = c.UpdateServiceGCSafePoint(ctx, "service", 1000, ts)
	require.NoError(t, err)
	_, err = c.AddResourceGroup(ctx, &rmpb.ResourceGroup{Name: "g", Priority: 3})
	require.NoError(t, err)
	require.NoError(t, c.StoreGlobalConfig(ctx, "", []pd.GlobalConfigItem{{Name: "n", Value: "v"}}))
	require.NoError(t, c.SetExternalTimestamp(ctx, ts))
	closePD(t, c, store)

	c, store = openPD(t, fs)
	defer closePD(t, c, store)
	require.Equal(t, id, c.GetClusterID(ctx))
	sp, err := c.UpdateGCSafePoint(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, ts, sp)
	holds, err := store.GCHolds(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{serviceHolds + "service": ts}, holds)
	g, err := c.GetResourceGroup(ctx, "g")
	require.NoError(t, err)
	require.EqualValues(t, 3, g.Priority)
	items, _, err := c.LoadGlobalConfig(ctx, nil, "")
	require.NoError(t, err)
	require.Len(t, items, 1)
	external, err := c.GetExternalTimestamp(ctx)
	require.NoError(t, err)
	require.Equal(t, ts, external)
}

func TestWatch(t *testing.T) {
	c, store := openPD(t, vfs.NewMem())
	defer closePD(t, c, store)
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := c.Watch(ctx, pd.GroupSettingsPathPrefixBytes)
	require.NoError(t, err)
	_, err = c.AddResourceGroup(ctx, &rmpb.ResourceGroup{Name: "g"})
	require.NoError(t, err)
	_, err = c.Put(ctx, []byte("elsewhere"), []byte("x"))
	require.NoError(t, err)
	_, err = c.DeleteResourceGroup(ctx, "g")
	require.NoError(t, err)
	first, second := <-watch, <-watch
	require.Equal(t, meta_storagepb.Event_PUT, first[0].Type)
	require.Equal(t, meta_storagepb.Event_DELETE, second[0].Type)
	require.Equal(t, first[0].Kv.Value, second[0].PrevKv.Value)
	cancel()
	_, open := <-watch
	require.False(t, open)
	_, err = c.DeleteResourceGroup(ctx, defaultGroup)
	require.Error(t, err)
}

// TestSlowWatcher checks that a watcher which does not keep up is cut off, and delays no other.
func TestSlowWatcher(t *testing.T) {
	c, store := openPD(t, vfs.NewMem())
	defer closePD(t, c, store)
	watch, err := c.Watch(t.Context(), []byte("k"))
	require.NoError(t, err)
	for i := range watchBuffer + 2 {
		c.meta.mu.Lock()
		c.meta.notify("k", &meta_storagepb.Event{Kv: &meta_storagepb.KeyValue{ModRevision: int64(i)}})
		c.meta.mu.Unlock()
	}
	n := 0
	for range watch {
		n++
	}
	require.Equal(t, watchBuffer, n)
}

func TestTokenBuckets(t *testing.T) {
	c, store := openPD(t, vfs.NewMem())
	defer closePD(t, c, store)
	ctx := t.Context()
	limited := &rmpb.ResourceGroup{Name: "limited", RUSettings: &rmpb.GroupRequestUnitSettings{
		RU: &rmpb.TokenBucket{Settings: &rmpb.TokenLimitSettings{FillRate: 10, BurstLimit: 100_000}}, // full in hours
	}}
	_, err := c.AddResourceGroup(ctx, limited)
	require.NoError(t, err)
	ask := func(group string) float64 {
		resp, err := c.AcquireTokenBuckets(ctx, &rmpb.TokenBucketsRequest{Requests: []*rmpb.TokenBucketRequest{{
			ResourceGroupName: group,
			Request: &rmpb.TokenBucketRequest_RuItems{RuItems: &rmpb.TokenBucketRequest_RequestRU{
				RequestRU: []*rmpb.RequestUnitItem{{Type: rmpb.RequestUnitType_RU, Value: 1e6}},
			}},
		}}})
		require.NoError(t, err)
		if len(resp) == 0 {
			return -1
		}
		return resp[0].GrantedRUTokens[0].GrantedTokens.Tokens
	}
	require.EqualValues(t, 1e6, ask(defaultGroup))
	require.EqualValues(t, 100_000, ask("limited"))
	require.Less(t, ask("limited"), 100_000.0)
	require.EqualValues(t, -1, ask("unknown"))
}

// TestGC checks that a new safe point collects garbage, as far as holds let it.
func TestGC(t *testing.T) {
	c, store := openPD(t, vfs.NewMem())
	defer closePD(t, c, store)
	ctx := t.Context()
	write := func(value string) uint64 {
		a, err := store.Apply(ctx, func(yield func(key, value []byte) bool) { yield([]byte("k"), []byte(value)) }, pebblekv.ApplyOptions{})
		require.NoError(t, err)
		require.NoError(t, a.Wait())
		return a.TS()
	}
	versions := func() int {
		v, err := store.Versions(ctx, []byte("k"))
		require.NoError(t, err)
		return len(v)
	}
	first := write("1")
	write("2")
	last := write("3")
	hold, err := store.HoldGC(ctx, "index build", first, time.Minute)
	require.NoError(t, err)
	lowest, err := c.UpdateServiceGCSafePoint(ctx, "gc_worker", 1<<62, last)
	require.NoError(t, err)
	require.Equal(t, first, lowest, "index builds count")
	_, err = c.UpdateGCSafePoint(ctx, last)
	require.NoError(t, err)
	require.Eventually(t, func() bool { sp, err := store.GCSafePoint(ctx); return err == nil && sp == first }, time.Minute, time.Millisecond)
	require.Equal(t, 3, versions())
	require.NoError(t, hold.Release(ctx))
	_, err = c.UpdateGCSafePoint(ctx, last+1)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return versions() == 1 }, time.Minute, time.Millisecond)
	tooLate, err := c.UpdateServiceGCSafePoint(ctx, "late", 1000, first)
	require.NoError(t, err)
	require.Greater(t, tooLate, first)
}
