package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// version is one stored version; an empty value is a tombstone.
type version struct {
	key   string
	ts    uint64
	value string
}

// rawVersions reads what is really in the engine.
func rawVersions(t *testing.T, s *Store) []version {
	t.Helper()
	var opts pebble.IterOptions
	opts.LowerBound, opts.UpperBound = engineBounds(kv.KeyRange{})
	it, err := s.db.NewIter(&opts)
	require.NoError(t, err)
	var out []version
	for it.First(); it.Valid(); it.Next() {
		key, ts, err := splitVersion(it.Key())
		require.NoError(t, err)
		value, err := it.ValueAndErr()
		require.NoError(t, err)
		out = append(out, version{string(key), ts, string(value)})
	}
	require.NoError(t, it.Close())
	return out
}

func inMemory(t *testing.T) *Store {
	return open(t, "db", Options{FS: vfs.NewMem(), GCRunInterval: func() time.Duration { return 0 }})
}

// commit writes pairs as one commit; an empty value is a tombstone.
func commit(ctx context.Context, s *Store, pairs map[string]string) (uint64, error) {
	a, err := s.Apply(ctx, writesOf(pairs), ApplyOptions{})
	if err != nil {
		return 0, err
	}
	return a.TS(), a.Wait()
}

// put commits pairs of keys and values; an empty value deletes.
func put(t *testing.T, s *Store, pairs ...string) uint64 {
	t.Helper()
	all := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	ts, err := commit(t.Context(), s, all)
	require.NoError(t, err)
	return ts
}

// snapshotNow opens a snapshot at a fresh timestamp.
func snapshotNow(t *testing.T, s *Store) kv.Snapshot {
	t.Helper()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	snap, err := s.Snapshot(t.Context(), ts)
	require.NoError(t, err)
	return snap
}

// finishedUnit returns a unit of the keys, which ascend, all with one value.
func finishedUnit(t *testing.T, s *Store, version uint64, value string, keys ...string) kv.ImportUnit {
	t.Helper()
	w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "tmp", Version: version})
	require.NoError(t, err)
	for _, key := range keys {
		require.NoError(t, w.Add([]byte(key), []byte(value)))
	}
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	return u
}

// TestTombstonesAreAlwaysWritten covers what the correctness of building an
// index in the past rests on: no deletion is dropped as needless.
func TestTombstonesAreAlwaysWritten(t *testing.T) {
	s := inMemory(t)
	first := put(t, s, "stored", "1")
	ts := put(t, s, "absent", "", "stored", "")
	require.Equal(t, []version{{"absent", ts, ""}, {"stored", ts, ""}, {"stored", first, "1"}}, rawVersions(t, s))
}

// TestKeys round-trips engine keys and checks that they sort as (key, newest
// version first).
func TestKeys(t *testing.T) {
	rnd := randtest.Rand(t)
	cmp := cockroachkvs.Comparer.Compare
	random := func() (key []byte, ts uint64) {
		key = make([]byte, rnd.IntN(4))
		for i := range key {
			key[i] = []byte{0, 1, 9, 10, 0xfe}[rnd.IntN(5)]
		}
		return key, rnd.Uint64N(4)
	}
	for range 5000 {
		k1, t1 := random()
		k2, t2 := random()
		e1, e2 := appendVersion(nil, k1, t1), appendVersion(nil, k2, t2)
		put := make([]byte, len(k1)+versionOverhead)
		putVersion(put, k1, t1)
		require.Equal(t, e1, put)
		key, ts, err := splitVersion(e1)
		require.NoError(t, err)
		require.Equal(t, string(k1), string(key))
		require.Equal(t, t1, ts)
		require.Equal(t, string(k1), string(userKey(e1)))
		want := 0
		switch {
		case string(k1) != string(k2):
			want = map[bool]int{true: -1, false: 1}[string(k1) < string(k2)]
		case t1 != t2:
			want = map[bool]int{true: -1, false: 1}[t1 > t2]
		}
		require.Equal(t, want, cmp(e1, e2), "%x@%d %x@%d", k1, t1, k2, t2)
		require.Equal(t, -1, cmp(appendBare(nil, k1), e1))
	}
	_, _, err := splitVersion([]byte{0})
	require.Error(t, err)
	_, _, err = splitVersion(recordKey("x"))
	require.Error(t, err)
	require.Equal(t, "name", recordName(recordKey("name")))
}

// TestReservedKeys checks that users cannot reach the store's own records.
func TestReservedKeys(t *testing.T) {
	s := inMemory(t)
	put(t, s, "a", "1", "\xfe\xff", "1")
	own := []byte{reservedByte, 'x'}
	for _, value := range []string{"1", ""} {
		_, err := commit(t.Context(), s, map[string]string{string(own): value})
		require.ErrorIs(t, err, errReservedKey)
	}
	snap := snapshotNow(t, s)
	for _, r := range []kv.KeyRange{{}, {Start: []byte("a"), End: []byte{0xff, 0xff}}, {End: []byte{0xff}}} {
		it, err := snap.Iter(r)
		require.NoError(t, err)
		n := 0
		for ; it.Valid(); n++ {
			require.NoError(t, it.Next())
		}
		require.NoError(t, it.Close())
		require.Equal(t, 2, n)
	}
	require.NoError(t, snap.Close())
	require.NoError(t, s.DeleteRange(t.Context(), kv.KeyRange{}))
	bound, err := s.tsRecord(recordTSBound)
	require.NoError(t, err)
	require.NotZero(t, bound, "DeleteRange reaches the store's own records")

	w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "tmp", Version: 1})
	require.NoError(t, err)
	require.ErrorIs(t, w.Add(own, []byte("1")), errReservedKey)
	require.NoError(t, w.Add([]byte("a"), []byte("1")))
	require.NoError(t, w.Add(own, []byte("1")))
	_, err = w.Finish(t.Context())
	require.ErrorIs(t, err, errReservedKey)
}

// TestLargeTransaction commits more than fits into a memtable, which the engine
// handles in its own way.
func TestLargeTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 80 MiB")
	}
	const n = 80
	s := inMemory(t)
	value := make([]byte, 1<<20)
	pairs := make(map[string]string)
	for i := range n {
		value[0] = byte(1 + i)
		pairs[fmt.Sprintf("%03d", i)] = string(value)
	}
	_, err := commit(t.Context(), s, pairs)
	require.NoError(t, err)
	s = reopen(t, s).(*Store)
	snap := snapshotNow(t, s)
	it, err := snap.Iter(kv.KeyRange{})
	require.NoError(t, err)
	for i := range n {
		require.True(t, it.Valid())
		require.Equal(t, byte(1+i), it.Value()[0])
		require.Len(t, it.Value(), len(value))
		require.NoError(t, it.Next())
	}
	require.False(t, it.Valid())
	require.NoError(t, it.Close())
	require.NoError(t, snap.Close())
}

// TestIteratorsRefresh lets iterators replace their engine iterator while the
// store is written to.
func TestIteratorsRefresh(t *testing.T) {
	s := inMemory(t)
	var want []string
	for i := range 20 {
		key := fmt.Sprintf("%02d", i)
		want = append(want, key)
		put(t, s, key, "1")
	}
	snap := snapshotNow(t, s)
	defer snap.Close()
	for _, key := range want {
		put(t, s, key, "2", key+"x", "2")
	}
	put(t, s, "05", "", "11", "")
	for _, reverse := range []bool{false, true} {
		var got []string
		it, err := view{s, snap.TS()}.iter(kv.KeyRange{}, reverse)
		require.NoError(t, err)
		for it.Valid() {
			require.Equal(t, "1", string(it.Value()))
			got = append(got, string(it.Key()))
			var c *cursor
			if f, ok := it.(*forwardIter); ok {
				c = &f.cursor
			} else {
				c = &it.(*reverseIter).cursor
			}
			c.opened, c.steps = time.Time{}, refreshCheck-1
			require.NoError(t, it.Next())
			require.False(t, it.Valid() && c.opened.IsZero(), "not refreshed")
		}
		require.NoError(t, it.Close())
		require.ElementsMatch(t, want, got)
	}
}

// TestLongWalksReleaseFiles: long walks over keys, shown or not, do not keep the files alive that were compacted since.
func TestLongWalksReleaseFiles(t *testing.T) {
	const keys = 6 * refreshCheck
	walks := map[string]func(ctx context.Context, s *Store, ts uint64) error{
		"count": func(ctx context.Context, s *Store, ts uint64) error {
			n, err := count(ctx, view{s, ts}, kv.KeyRange{})
			require.Equal(t, int64(2), n)
			return err
		},
		"changes": func(ctx context.Context, s *Store, ts uint64) error {
			n := 0
			err := s.Changes(ctx, kv.KeyRange{}, ts-1, ts, func([]byte) error { n++; return nil })
			require.Equal(t, keys+1, n)
			return err
		},
	}
	for _, reverse := range []bool{false, true} {
		walks[fmt.Sprintf("scan, reverse=%v", reverse)] = func(ctx context.Context, s *Store, ts uint64) error {
			sc, err := s.NewScanner(ctx, kv.KeyRange{}, ts, reverse)
			if err != nil {
				return err
			}
			n := 0
			for ; sc.Valid() && err == nil; n++ {
				err = sc.Next()
			}
			require.Equal(t, 2, n)
			return errors.Join(err, sc.Close())
		}
	}
	for name, walk := range walks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				put(t, s, "a", "1")
				pairs := map[string]string{"z": "1"}
				for i := range keys {
					pairs[fmt.Sprintf("k%06d", i)] = ""
				}
				ts, err := commit(t.Context(), s, pairs)
				require.NoError(t, err)
				require.NoError(t, s.db.Flush())
				calls, kept, left := 0, int64(0), int64(0)
				ctx := askedContext{t.Context(), func() {
					if calls++; calls <= 2 { // the first may be before the walk
						_, err := commit(t.Context(), s, map[string]string{"newer": "1"})
						require.NoError(t, err)
						require.NoError(t, s.db.Flush())
						require.NoError(t, s.db.Compact(t.Context(), appendBare(nil, []byte("a")), appendBare(nil, []byte("zz")), false))
					}
					left = s.db.Metrics().Table.ZombieCount
					kept = max(kept, left)
					time.Sleep(maxEngineIterAge + 1)
				}}
				require.NoError(t, walk(ctx, s, ts))
				require.Greater(t, calls, 4)
				require.Less(t, left, kept)
				require.NoError(t, s.Close())
			})
		})
	}
}

// askedContext calls asked whenever it is asked whether it has ended.
type askedContext struct {
	context.Context
	asked func()
}

func (c askedContext) Err() error {
	c.asked()
	return c.Context.Err()
}

func TestLoadMeter(t *testing.T) {
	m := newLoadMeter()
	now := time.Unix(1000, 0)
	m.now = func() time.Time { return now }
	p99, rate := m.commits()
	require.Zero(t, p99)
	require.Zero(t, rate)
	for i := range 1000 {
		latency := time.Millisecond
		if i%50 == 0 {
			latency = 40 * time.Millisecond
		}
		m.observe(latency)
	}
	p99, rate = m.commits()
	require.InDelta(t, 40, p99.Seconds()*1000, 10)
	require.InDelta(t, 200, rate, 1)
	now = now.Add(3 * time.Second)
	m.observe(time.Millisecond)
	_, rate = m.commits()
	require.InDelta(t, 200, rate, 1)
	now = now.Add(loadSlots * time.Second)
	p99, rate = m.commits()
	require.Zero(t, p99, "old commits are forgotten")
	require.Zero(t, rate)
	m.observe(time.Hour)
	now = now.Add(-time.Hour)
	p99, rate = m.commits()
	require.Zero(t, p99, "those before the clock was set back are not of the last seconds")
	require.Zero(t, rate)
	for d := time.Duration(0); d < time.Hour; d = d*5/4 + time.Microsecond {
		b := bucketOf(d)
		require.GreaterOrEqual(t, bucketLimit(b), d.Truncate(time.Microsecond))
		require.LessOrEqual(t, float64(bucketLimit(b)), 1.26*float64(d)+float64(time.Microsecond))
	}
}

// TestRangesBehindTheUserKeys hold nothing, and nothing goes wrong with them.
func TestRangesBehindTheUserKeys(t *testing.T) {
	s := inMemory(t)
	before := put(t, s, "a", "1")
	require.NoError(t, s.SaveMeta(t.Context(), "\xff", []byte("own")))
	require.NoError(t, s.db.Flush())
	now, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	snap := snapshotNow(t, s)
	for _, r := range []kv.KeyRange{
		{Start: []byte{0xff}}, {Start: []byte{0xff, 0}}, {Start: []byte{0xff, 0xff}},
		{Start: []byte{0xff}, End: []byte{0xff, 0xff}}, {Start: []byte{0xff, 'a'}, End: []byte{0xff, 'b'}},
		{Start: []byte{0xff, 0xff}, End: []byte{0xff, 0xff, 0xff}},
	} {
		lower, upper := engineBounds(r)
		require.LessOrEqual(t, s.engOpts.Comparer.Compare(lower, upper), 0)
		pieces, err := s.Ranges(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, []kv.SizedRange{{KeyRange: r}}, pieces)
		n, err := snap.Count(t.Context(), r)
		require.NoError(t, err)
		require.Zero(t, n)
		for _, iter := range []func(kv.KeyRange) (kv.Iterator, error){snap.Iter, snap.IterReverse} {
			it, err := iter(r)
			require.NoError(t, err)
			require.False(t, it.Valid())
			require.NoError(t, it.Close())
		}
		require.NoError(t, s.Changes(t.Context(), r, before-1, now, func(key []byte) error { return fmt.Errorf("%x", key) }))
		require.NoError(t, s.DeleteRange(t.Context(), r))
	}
	require.NoError(t, snap.Close())
	s = reopen(t, s).(*Store)
	requireReadable(t, s, true, "a")
	v, err := s.LoadMeta(t.Context(), "\xff")
	require.NoError(t, err)
	require.Equal(t, "own", string(v))
}

// TestLastKeyIsFoundBehindNewerVersions: a table that grows at its end while an index is built has
// many keys there that the build's snapshot does not see, and the last one that it sees is asked for
// more than once.
func TestLastKeyIsFoundBehindNewerVersions(t *testing.T) {
	const newer = 2000
	s := inMemory(t)
	snap, err := s.Snapshot(t.Context(), apply(t, s, ApplyOptions{}, map[string]string{"a": "1"}))
	require.NoError(t, err)
	defer snap.Close()
	require.NoError(t, s.db.Flush())
	for i := range newer / 100 {
		var pairs []string
		for j := range 100 {
			pairs = append(pairs, fmt.Sprintf("b%04d", 100*i+j), strings.Repeat("2", 300))
		}
		put(t, s, pairs...)
	}
	stats := func() pebble.IteratorStats {
		it, err := snap.IterReverse(kv.KeyRange{})
		require.NoError(t, err)
		defer it.Close()
		require.True(t, it.Valid())
		require.Equal(t, "a", string(it.Key()))
		return it.(*reverseIter).it.Stats()
	}
	require.Less(t, stats().ReverseSeekCount[pebble.InterfaceCall], 10, "a seek for each key")

	require.NoError(t, s.db.Flush())
	require.Less(t, stats().ReverseStepCount[pebble.InternalIterCall], newer/4, "files that have nothing to see are read")
}
