package tikv

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/oracle"
	pd "github.com/tikv/pd/client"
	pdhttp "github.com/tikv/pd/client/http"

	"fastddl/kv"
	"fastddl/kv/kvtest"
)

func importPairs(t *testing.T, s *testStore, version uint64, pairs map[string]string) {
	t.Helper()
	w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "pairs", Version: version})
	require.NoError(t, err)
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		require.NoError(t, w.Add([]byte(k), []byte(pairs[k])))
	}
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}))
}

// TestReadsBelowSafePointFail: reads and holds below the GC safe point are refused.
func TestReadsBelowSafePointFail(t *testing.T) {
	s := openNew(t)
	ctx := t.Context()
	written, err := s.CurrentTS(ctx)
	require.NoError(t, err)
	importPairs(t, s, written, map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"})
	old, err := s.CurrentTS(ctx)
	require.NoError(t, err)
	snap, err := s.Snapshot(ctx, old)
	require.NoError(t, err)
	left, err := s.Snapshot(ctx, old)
	require.NoError(t, err)
	it, err := left.Iter(kv.KeyRange{})
	require.NoError(t, err)
	require.NoError(t, left.Close())
	held, err := s.HoldGC(ctx, "fastddl-job-1", old, time.Minute)
	require.NoError(t, err)

	now, err := s.CurrentTS(ctx)
	require.NoError(t, err)
	other, err := s.HoldGC(ctx, "another", now, time.Hour)
	require.NoError(t, err)
	require.NoError(t, held.Renew(ctx, time.Minute))
	require.NoError(t, held.Release(ctx))
	holds, err := s.GCHolds(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"another": now}, holds)
	require.NoError(t, other.Release(ctx))

	safe, err := s.GCSafePoint(ctx)
	require.NoError(t, err)
	require.Zero(t, safe)
	_, err = s.data.PDClient().UpdateGCSafePoint(ctx, now)
	require.NoError(t, err)
	safe, err = s.GCSafePoint(ctx)
	require.NoError(t, err)
	require.Equal(t, now, safe)
	require.Eventually(t, func() bool { // until it is collected
		collected, err := s.data.Builds().GCSafePoint(ctx)
		return err == nil && collected == now
	}, time.Minute, time.Millisecond)
	_, err = s.HoldGC(ctx, "fastddl-job-2", old, time.Minute)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	require.ErrorIs(t, held.Renew(ctx, time.Minute), kv.ErrSnapshotTooOld)

	// What statements go by is what the GC worker has published.
	s.cluster.(*storage).cluster.(interface{ UpdateSPCache(uint64, time.Time) }).UpdateSPCache(now, time.Now())
	_, err = s.Snapshot(ctx, old)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	_, err = snap.Get(ctx, []byte("a"))
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	_, err = snap.Iter(kv.KeyRange{})
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	for err = nil; it.Valid() && err == nil; { // it has some in hand
		err = it.Next()
	}
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld, "an iterator that has outlived its snapshot")
	require.NoError(t, it.Close())
	req := s.request(t, 1)
	req.TS = old
	require.ErrorIs(t, s.ScanColumns(ctx, req, func(*kv.RowBatch) error { return nil }), kv.ErrSnapshotTooOld)
	_, err = s.Checksum(ctx, kv.KeyRange{}, old)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	_, _, err = s.CountUnchanged(ctx, req.Range, old, now)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	require.NoError(t, snap.Close())
}

// strictPD is PD in that it takes no hold below the lowest one, whosever that is.
type strictPD struct {
	pd.Client
	lowest uint64
	ttl    int64 // of the last hold
}

func (p *strictPD) UpdateServiceGCSafePoint(_ context.Context, _ string, ttl int64, ts uint64) (uint64, error) {
	p.ttl = ttl
	if ttl > 0 && ts < p.lowest {
		return p.lowest, nil
	}
	return min(p.lowest, ts), nil
}

// TestHoldBelowOthersIsRefused: PD's answer shows that a hold was not taken.
func TestHoldBelowOthersIsRefused(t *testing.T) {
	s := openNew(t)
	strict := &strictPD{Client: s.cluster.GetPDClient(), lowest: 100}
	s.cluster.(*storage).pd = strict
	_, err := s.HoldGC(t.Context(), "fastddl-job-1", 99, time.Minute)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	h, err := s.HoldGC(t.Context(), "fastddl-job-1", 100, 1500*time.Millisecond)
	require.NoError(t, err)
	require.EqualValues(t, 2, strict.ttl, "whole seconds, and not less than asked for")
	strict.lowest = 101
	require.ErrorIs(t, h.Renew(t.Context(), time.Minute), kv.ErrSnapshotTooOld)
	require.NoError(t, h.Release(t.Context()))
	require.Zero(t, strict.ttl)
}

// TestExpiredHolds: PD also lists expired holds, until a service renews one. They expire by
// PD's own clock.
func TestExpiredHolds(t *testing.T) {
	s := openNew(t)
	now, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	second := oracle.ExtractPhysical(now) / 1000
	s.cluster.(*storage).http.(*pdHTTP).more = []*pdhttp.ServiceSafePoint{
		{ServiceID: "expired", ExpiredAt: second - 1, SafePoint: 100}, {ServiceID: "live", ExpiredAt: second + 60, SafePoint: 100},
	}
	holds, err := s.GCHolds(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"live": 100}, holds)
}

// TestRangesWithoutSizes: a plan is made whether or not PD knows the sizes of regions.
func TestRangesWithoutSizes(t *testing.T) {
	s := openNew(t)
	s.splitAt(t, "b", "d", "f")
	r := kv.KeyRange{Start: []byte("a"), End: []byte("e")}
	ranges := func() (out []kv.SizedRange) {
		out, err := s.Ranges(t.Context(), r)
		require.NoError(t, err)
		return out
	}
	var want []kv.SizedRange
	for i, bounds := range []string{"ab", "bd", "de"} {
		want = append(want, kv.SizedRange{
			KeyRange: kv.KeyRange{Start: []byte(bounds[:1]), End: []byte(bounds[1:])}, Bytes: uint64(i+1) << 20,
		})
	}
	require.Equal(t, want, ranges())
	for i := range want {
		want[i].Bytes = 0
	}
	s.cluster.(*storage).http.(*pdHTTP).err = errors.New("PD is away")
	require.Equal(t, want, ranges())
	_, err := s.GCHolds(t.Context())
	require.ErrorContains(t, err, "PD is away")
	s.cluster.(*storage).http = nil
	require.Equal(t, want, ranges())
	_, err = s.GCHolds(t.Context())
	require.Error(t, err)
}

// TestVersion: a snapshot returns the version of a key.
func TestVersion(t *testing.T) {
	s := openNew(t)
	commit := kvtest.TiDBCommit(storageOf)
	var at []uint64
	for _, v := range []string{"1", "2", ""} {
		ts, err := commit(t.Context(), s, map[string]string{"a": v})
		require.NoError(t, err)
		at = append(at, ts)
	}
	version := func(ts uint64) (uint64, error) {
		snap, err := s.Snapshot(t.Context(), ts)
		require.NoError(t, err)
		defer func() { require.NoError(t, snap.Close()) }()
		return snap.(kv.VersionedSnapshot).Version(t.Context(), []byte("a"))
	}
	for i := range 2 {
		for _, ts := range []uint64{at[i], at[i+1] - 1} {
			got, err := version(ts)
			require.NoError(t, err)
			require.Equal(t, at[i], got)
		}
	}
	for _, ts := range []uint64{at[0] - 1, at[2]} {
		_, err := version(ts)
		require.ErrorIs(t, err, kv.ErrNotExist)
	}
}

// TestStoreWithoutImporter: a store without an importer imports nothing, and bad options are
// refused.
func TestStoreWithoutImporter(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{})
	reader, err := Open(s.cluster, Options{})
	require.NoError(t, err)
	_, err = reader.NewImportWriter(t.Context(), kv.ImportOptions{Version: 1})
	require.Error(t, err)
	require.Error(t, reader.Import(t.Context(), nil))
	require.NoError(t, reader.Close())
	_, err = Open(s.cluster, Options{PageBytes: -1})
	require.Error(t, err)
}
