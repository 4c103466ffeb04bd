package tikv

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"

	"fastddl/kv"
)

// visitedStore is a pagedStore whose regions have versions, after a scan that remembers what it has visited.
type visitedStore struct {
	*testStore
	ts       uint64
	versions map[uint64]uint64 // by region; 7 if there is none
	records  kv.KeyRange
}

func newVisitedStore(t *testing.T, change func(req *kv.ScanRequest)) *visitedStore {
	t.Helper()
	v := &visitedStore{testStore: pagedStore(t), versions: map[uint64]uint64{}, records: kv.PrefixRange(tablecodec.GenTableRecordPrefix(testTable))}
	v.log.version = func(region uint64) uint64 {
		if n, ok := v.versions[region]; ok {
			return n
		}
		return 7
	}
	req := v.request(t, 1)
	req.Remember, v.ts = true, req.TS
	if change != nil {
		change(&req)
	}
	require.NoError(t, v.ScanColumns(t.Context(), req, func(*kv.RowBatch) error { return nil }))
	return v
}

// regionOf is the region of a row.
func (v *visitedStore) regionOf(t *testing.T, handle int64) uint64 {
	t.Helper()
	loc, err := v.cluster.GetRegionCache().LocateKey(tikv.NewBackofferWithVars(t.Context(), maxBackoff, nil), handleKey(handle))
	require.NoError(t, err)
	return loc.Region.GetID()
}

// counted counts all rows, and returns how many requests were cache hits, and how many read rows.
func (v *visitedStore) counted(t *testing.T) (n int64, unchanged bool, hits, reads int) {
	t.Helper()
	upTo, err := v.CurrentTS(t.Context())
	require.NoError(t, err)
	v.log.change = func(asked *coprocessor.Request, answer *coprocessor.Response) {
		switch {
		case answer.IsCacheHit:
			require.Equal(t, upTo, asked.StartTs, "locks in memory are looked at by it, and later ones commit above it")
			hits++
		case asked.CacheIfMatchVersion == 0:
			reads++
		}
	}
	defer func() { v.log.change = nil }()
	n, unchanged, err = v.CountUnchanged(t.Context(), v.records, v.ts, upTo)
	require.NoError(t, err)
	return n, unchanged, hits, reads
}

// TestVisitedRegionsAreNotCountedAgain: regions whose data has the version of which a scan has visited it are not read
// again, and all others are: those that were written to, split, or that the scan has met a newer version or a lock in.
func TestVisitedRegionsAreNotCountedAgain(t *testing.T) {
	v := newVisitedStore(t, nil)
	n, unchanged, hits, reads := v.counted(t)
	require.True(t, unchanged)
	require.EqualValues(t, 5000, n)
	require.Equal(t, 3, hits)
	require.Zero(t, reads)

	v.versions[v.regionOf(t, 2000)] = 8
	n, unchanged, hits, reads = v.counted(t)
	require.True(t, unchanged, "something else was written to it")
	require.EqualValues(t, 5000, n)
	require.Equal(t, 2, hits)
	require.Equal(t, 1, reads)

	write(t, v.testStore, handleKey(2000))
	_, unchanged, _, _ = v.counted(t)
	require.False(t, unchanged)

	v = newVisitedStore(t, nil)
	split := ""
	for _, visits := range v.visits.byTS[v.ts].at { // where a visit begins: they tile the new regions
		for key := range visits {
			if key > string(handleKey(3000)) {
				split = key
			}
		}
	}
	v.splitAt(t, split)
	_, err := v.regions(t.Context(), v.records)
	require.NoError(t, err)
	n, unchanged, hits, reads = v.counted(t)
	require.True(t, unchanged)
	require.EqualValues(t, 5000, n)
	require.Equal(t, 2, hits, "the region was split")
	require.GreaterOrEqual(t, reads, 2)

	v = newVisitedStore(t, func(req *kv.ScanRequest) { req.Remember = false })
	n, unchanged, hits, reads = v.counted(t)
	require.True(t, unchanged)
	require.EqualValues(t, 5000, n)
	require.Zero(t, hits, "a second reading was wanted")
	require.Equal(t, 3, reads)

	// What the scan has not visited is counted, and what was written there since shows.
	narrow := func(req *kv.ScanRequest) {
		req.Range = kv.KeyRange{Start: handleKey(5), End: handleKey(4000)}
	}
	v = newVisitedStore(t, narrow)
	n, unchanged, hits, reads = v.counted(t)
	require.True(t, unchanged)
	require.EqualValues(t, 5000, n)
	require.Equal(t, 3, hits)
	require.Equal(t, 2, reads, "two parts were not visited")
	for _, handle := range []int64{2, 4500, 6000} {
		v = newVisitedStore(t, narrow)
		write(t, v.testStore, handleKey(handle))
		_, unchanged, _, _ = v.counted(t)
		require.False(t, unchanged, "row %d was not visited, and written to", handle)
	}
}

// TestVisitsThatProveNothing: a scan that has met a newer version or a lock, whose region was written to between two of its pages,
// or whose answers name no version, is not relied upon.
func TestVisitsThatProveNothing(t *testing.T) {
	for name, change := range map[string]func(*coprocessor.Response){
		"newer or locked":   func(answer *coprocessor.Response) { answer.CanBeCached = false },
		"without version":   func(answer *coprocessor.Response) { answer.CacheLastVersion = 0 },
		"written meanwhile": func(*coprocessor.Response) {},
	} {
		s := pagedStore(t)
		answered := 0
		s.log.version = func(uint64) uint64 {
			if answered++; name == "written meanwhile" && answered <= 3 {
				return 6
			}
			return 7
		}
		s.log.change = func(_ *coprocessor.Request, answer *coprocessor.Response) { change(answer) }
		req := s.request(t, 1)
		req.Remember, req.Range.End = true, handleKey(1500)
		require.NoError(t, s.ScanColumns(t.Context(), req, func(*kv.RowBatch) error { return nil }))
		require.Greater(t, answered, 3)
		v := &visitedStore{testStore: s, ts: req.TS, records: req.Range}
		n, unchanged, hits, _ := v.counted(t)
		require.True(t, unchanged, name)
		require.EqualValues(t, 1500, n, name)
		require.Zero(t, hits, name)
	}

	// A lock in memory is met by the request itself.
	v := newVisitedStore(t, nil)
	v.log.change = nil
	upTo, err := v.CurrentTS(t.Context())
	require.NoError(t, err)
	reads := 0
	v.log.change = func(asked *coprocessor.Request, answer *coprocessor.Response) {
		if asked.CacheIfMatchVersion != 0 {
			*answer = coprocessor.Response{Locked: &kvrpcpb.LockInfo{Key: handleKey(1), LockVersion: upTo - 1}}
		} else {
			reads++
		}
	}
	_, _, err = v.CountUnchanged(t.Context(), v.records, v.ts, upTo)
	require.NoError(t, err)
	require.Equal(t, 3, reads)
}

// TestVisitsAreForgotten: the oldest timestamp when there is no room for the visits of another, and all after a day.
func TestVisitsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v visits
		add := func(ts uint64, at, size int) {
			key := append(make([]byte, size), byte(at>>8), byte(at))
			v.add(ts, &regionAnswer{
				Response: &coprocessor.Response{CanBeCached: true, CacheLastVersion: 7}, where: place{leader: 1}, part: kv.KeyRange{Start: key, End: append(key, 1)},
			}, 1)
		}
		look := func(check func()) {
			v.mu.Lock()
			defer v.mu.Unlock()
			check()
		}
		add(1, 0, 8)
		add(2, 0, 8)
		for i := range 100 {
			add(2, i, 1<<20)
			require.LessOrEqual(t, v.bytes, maxVisitBytes)
		}
		require.NotContains(t, v.byTS, uint64(1))
		require.Equal(t, v.byTS[2].bytes, v.bytes)
		require.Greater(t, v.bytes, maxVisitBytes-3<<20)
		time.Sleep(maxVisitAge - time.Second)
		add(3, 0, 8)
		time.Sleep(maxVisitAge - time.Second)
		synctest.Wait()
		look(func() { require.NotContains(t, v.byTS, uint64(2)) })
		add(3, 1, 8)
		time.Sleep(2 * time.Second)
		look(func() { require.Contains(t, v.byTS, uint64(3), "it is in use") })
		time.Sleep(maxVisitAge)
		synctest.Wait()
		look(func() {
			require.Empty(t, v.byTS)
			require.Empty(t, v.order)
			require.Zero(t, v.bytes)
		})
	})
}

// write writes a row.
func write(t *testing.T, s *testStore, key tidbkv.Key) {
	t.Helper()
	txn, err := s.data.Storage().Begin()
	require.NoError(t, err)
	require.NoError(t, txn.Set(key, []byte{128, 0, 0, 0, 0, 0}))
	require.NoError(t, txn.Commit(t.Context()))
}
