package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// apply commits pairs; an empty value is a tombstone.
func apply(t *testing.T, s *Store, opts ApplyOptions, pairs map[string]string) uint64 {
	t.Helper()
	a, err := s.Apply(t.Context(), writesOf(pairs), opts)
	require.NoError(t, err)
	ts := a.TS()
	require.NoError(t, a.Wait())
	return ts
}

func writesOf(pairs map[string]string) Writes {
	return func(yield func(key, value []byte) bool) {
		for _, k := range slices.Sorted(maps.Keys(pairs)) {
			if !yield([]byte(k), []byte(pairs[k])) {
				return
			}
		}
	}
}

func TestApplyAndLookup(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	first := apply(t, s, ApplyOptions{}, map[string]string{"a": "1", "b": "1"})
	second := apply(t, s, ApplyOptions{}, map[string]string{"a": "2", "b": "", "c": ""})
	l, err := s.NewLookup(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	for _, c := range []struct {
		key   string
		ts    uint64
		found uint64
		value string
	}{
		{"a", first - 1, 0, ""},
		{"a", first, first, "1"},
		{"a", second - 1, first, "1"},
		{"a", second, second, "2"},
		{"a", math.MaxUint64 - 1, second, "2"},
		{"b", second, second, ""},
		{"c", second, second, ""},
		{"c", first, 0, ""},
		{"aa", second, 0, ""},
	} {
		v, err := l.At([]byte(c.key), c.ts)
		require.NoError(t, err)
		require.Equal(t, c.found, v.TS, "%s at %d", c.key, c.ts)
		require.Equal(t, c.value, string(v.Value))
		require.Equal(t, c.value != "", v.Live())
	}
	v, err := l.Newest([]byte("b"))
	require.NoError(t, err)
	require.Equal(t, second, v.TS)
	versions, err := s.Versions(t.Context(), []byte("a"))
	require.NoError(t, err)
	require.Equal(t, []Version{{second, []byte("2")}, {first, []byte("1")}}, versions)
}

// TestLookupAfter checks conflict checks with the time filter against those without, with data in many files.
func TestLookupAfter(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	rnd := rand.New(rand.NewPCG(1, 2))
	newest := make(map[string]uint64)
	var times []uint64
	for round := range 30 {
		pairs := make(map[string]string)
		for range 20 {
			pairs[fmt.Sprintf("k%03d", rnd.IntN(200))] = "v"
		}
		ts := apply(t, s, ApplyOptions{}, pairs)
		times = append(times, ts)
		for k := range pairs {
			newest[k] = ts
		}
		if round%7 == 0 {
			require.NoError(t, s.db.Flush())
		}
	}
	for _, ts := range times {
		l, err := s.NewLookupAfter(t.Context(), ts)
		require.NoError(t, err)
		for i := range 200 {
			k := fmt.Sprintf("k%03d", i)
			got, err := l.NewerThan([]byte(k), ts)
			require.NoError(t, err)
			want := newest[k]
			if want <= ts {
				want = 0
			}
			require.Equal(t, want, got, "%s after %d", k, ts)
		}
		require.NoError(t, l.Close())
	}
}

func TestApplyAtGivenTime(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	early, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	late := apply(t, s, ApplyOptions{}, map[string]string{"a": "late"})
	require.Equal(t, early, apply(t, s, ApplyOptions{TS: early}, map[string]string{"a": "early"}))
	v, err := s.Versions(t.Context(), []byte("a"))
	require.NoError(t, err)
	require.Equal(t, []Version{{late, []byte("late")}, {early, []byte("early")}}, v)
	_, err = s.Apply(t.Context(), writesOf(nil), ApplyOptions{TS: late + 1<<40})
	require.ErrorIs(t, err, errFutureTS)
	_, err = s.CollectGarbage(t.Context(), early)
	require.NoError(t, err)
	_, err = s.Apply(t.Context(), writesOf(nil), ApplyOptions{TS: early})
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
}

func TestApplyLimits(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	now, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	_, err = s.Apply(t.Context(), writesOf(map[string]string{"a": "1"}), ApplyOptions{MaxTS: now})
	require.ErrorIs(t, err, ErrCommitTSTooLarge)
	_, err = s.Apply(t.Context(), writesOf(map[string]string{"\xffa": "1"}), ApplyOptions{})
	require.ErrorIs(t, err, errReservedKey)
	v, err := s.Versions(t.Context(), []byte("a"))
	require.NoError(t, err)
	require.Empty(t, v)
	require.NotZero(t, apply(t, s, ApplyOptions{}, nil), "a commit that writes nothing")
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.timeline.awaitCommits(t.Context(), ts), "nothing is left in flight")
}

// TestApplyInFlight: a commit is in flight from its timestamp until it has ended. Readers above it wait, and the safe point
// stays below it.
func TestApplyInFlight(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	var announced uint64
	a, err := s.Apply(t.Context(), writesOf(map[string]string{"a": "1"}), ApplyOptions{Announce: func(ts uint64) { announced = ts }})
	require.NoError(t, err)
	require.Equal(t, a.TS(), announced)
	now, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.timeline.awaitCommits(ctx, now), context.DeadlineExceeded)
	require.NoError(t, s.timeline.awaitCommits(t.Context(), a.TS()-1))
	sp, err := s.CollectGarbage(t.Context(), now)
	require.NoError(t, err)
	require.Less(t, sp, a.TS(), "the safe point does not pass a commit in flight")
	require.NoError(t, a.Wait())
	require.NoError(t, s.timeline.awaitCommits(t.Context(), now))
}

func TestApplyUndetermined(t *testing.T) {
	fs, _, broken := failingFS(isLog)
	s := open(t, "db", Options{FS: fs})
	before := apply(t, s, ApplyOptions{}, map[string]string{"a": "1"})
	broken.Store(true)
	a, err := s.Apply(t.Context(), writesOf(map[string]string{"a": "2"}), ApplyOptions{})
	if err == nil {
		err = a.Wait()
	}
	require.ErrorIs(t, err, kv.ErrResultUndetermined)
	_, err = s.Apply(t.Context(), writesOf(map[string]string{"a": "3"}), ApplyOptions{})
	require.Error(t, err)
	require.False(t, errors.Is(err, kv.ErrResultUndetermined), "what was not tried has a known result")
	require.NoError(t, s.timeline.awaitCommits(t.Context(), before))
	require.ErrorIs(t, s.timeline.awaitCommits(t.Context(), math.MaxUint64), kv.ErrResultUndetermined)
	broken.Store(false)
}

// TestScanner compares scans in both directions with a model.
func TestScanner(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	rnd := rand.New(rand.NewPCG(3, 4))
	model := make(map[string]string)
	history := make(map[uint64]map[string]string)
	var times []uint64
	for range 60 {
		pairs := make(map[string]string)
		for range 10 {
			k := fmt.Sprintf("k%02d", rnd.IntN(40))
			pairs[k] = ""
			if rnd.IntN(3) > 0 {
				pairs[k] = fmt.Sprint(rnd.IntN(1000))
			}
		}
		ts := apply(t, s, ApplyOptions{}, pairs)
		for k, v := range pairs {
			if model[k] = v; v == "" {
				delete(model, k)
			}
		}
		times = append(times, ts)
		history[ts] = maps.Clone(model)
	}
	for _, ts := range times {
		r := kv.KeyRange{Start: fmt.Appendf(nil, "k%02d", rnd.IntN(40)), End: fmt.Appendf(nil, "k%02d", rnd.IntN(40))}
		for _, reverse := range []bool{false, true} {
			sc, err := s.NewScanner(t.Context(), r, ts, reverse)
			require.NoError(t, err)
			var got []string
			newer := false
			for sc.Valid() {
				got = append(got, string(sc.Key())+"="+string(sc.Value()))
				require.NoError(t, sc.Next())
			}
			newer = sc.SkippedTS() > ts
			require.NoError(t, sc.Close())
			var want []string
			wantNewer := false
			for _, k := range slices.Sorted(maps.Keys(history[ts])) {
				if r.Contains([]byte(k)) {
					want = append(want, k+"="+history[ts][k])
				}
			}
			for i := range 40 {
				k := fmt.Appendf(nil, "k%02d", i)
				versions, err := s.Versions(t.Context(), k)
				require.NoError(t, err)
				wantNewer = wantNewer || r.Contains(k) && len(versions) > 0 && versions[0].TS > ts
			}
			if reverse {
				slices.Reverse(want)
			}
			require.Equal(t, want, got)
			require.Equal(t, wantNewer, newer, "the scan reports newer versions")
		}
	}
	require.Empty(t, s.timeline.readers)
}

func TestScannerHoldsGC(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	first := apply(t, s, ApplyOptions{}, map[string]string{"a": "1"})
	sc, err := s.NewScanner(t.Context(), kv.KeyRange{}, first, false)
	require.NoError(t, err)
	last := apply(t, s, ApplyOptions{}, map[string]string{"a": "2"})
	sp, err := s.CollectGarbage(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, first, sp)
	require.NoError(t, sc.Close())
	require.NoError(t, sc.Close())
	sp, err = s.CollectGarbage(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, last, sp)
	versions, err := s.Versions(t.Context(), []byte("a"))
	require.NoError(t, err)
	require.Len(t, versions, 1)
	_, err = s.NewScanner(t.Context(), kv.KeyRange{}, first, false)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	l, err := s.NewLookup(t.Context())
	require.NoError(t, err)
	_, err = l.At([]byte("a"), first)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	require.NoError(t, l.Close())
}

func TestMeta(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	ctx := t.Context()
	require.NoError(t, s.SaveMeta(ctx, "x/b", []byte("2")))
	require.NoError(t, s.SaveMeta(ctx, "x/a", []byte("1")))
	require.NoError(t, s.SaveMeta(ctx, "y", []byte("3")))
	s = reopen(t, s).(*Store)
	v, err := s.LoadMeta(ctx, "x/a")
	require.NoError(t, err)
	require.Equal(t, "1", string(v))
	var names []string
	require.NoError(t, s.EachMeta(ctx, "x/", func(name string, value []byte) error {
		names = append(names, name+"="+string(value))
		return nil
	}))
	require.Equal(t, []string{"x/a=1", "x/b=2"}, names)
	require.NoError(t, s.SaveMeta(ctx, "x/a", nil))
	v, err = s.LoadMeta(ctx, "x/a")
	require.NoError(t, err)
	require.Nil(t, v)
}

// TestScannerOverDeletedKeysStops: a scan over deleted keys only stops when its context is cancelled.
func TestScannerOverDeletedKeysStops(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	deleted := make(map[string]string)
	for i := range 3 * refreshCheck {
		deleted[fmt.Sprintf("k%06d", i)] = ""
	}
	ts := apply(t, s, ApplyOptions{}, deleted)
	for _, reverse := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		sc, err := s.NewScanner(ctx, kv.KeyRange{}, ts, reverse)
		require.NoError(t, err)
		require.False(t, sc.Valid())
		require.NoError(t, sc.Close())

		apply(t, s, ApplyOptions{}, map[string]string{"a": "1", "z": "1"})
		sc, err = s.NewScanner(ctx, kv.KeyRange{}, math.MaxUint64-1, reverse)
		require.NoError(t, err)
		require.True(t, sc.Valid())
		cancel()
		require.ErrorIs(t, sc.Next(), context.Canceled)
		require.False(t, sc.Valid())
		require.NoError(t, sc.Close())
	}
}

// TestReadsAtZero: reads at timestamp 0, the lowest, find nothing, and their search ends. After garbage collection they
// fail with ErrSnapshotTooOld, like others below the safe point.
func TestReadsAtZero(t *testing.T) {
	s := gcStore(t)
	for i := range 2 * stepsBeforeSeek {
		put(t, s, "a", fmt.Sprint(i), "b", fmt.Sprint(i))
	}
	all := kv.KeyRange{}
	reads := map[string]func() (int, error){
		"get": func() (int, error) {
			snap, err := s.Snapshot(t.Context(), 0)
			if err != nil {
				return 0, err
			}
			_, err = snap.Get(t.Context(), []byte("a"))
			if errors.Is(err, kv.ErrNotExist) {
				return 0, snap.Close()
			}
			return 1, errors.Join(err, snap.Close())
		},
		"count": func() (int, error) {
			snap, err := s.Snapshot(t.Context(), 0)
			if err != nil {
				return 0, err
			}
			n, err := snap.Count(t.Context(), all)
			return int(n), errors.Join(err, snap.Close())
		},
		"lookup": func() (int, error) {
			l, err := s.NewLookup(t.Context())
			if err != nil {
				return 0, err
			}
			v, err := l.At([]byte("a"), 0)
			return int(v.TS), errors.Join(err, l.Close())
		},
	}
	for _, reverse := range []bool{false, true} {
		reads[fmt.Sprint("scan, reverse ", reverse)] = func() (n int, err error) {
			sc, err := s.NewScanner(t.Context(), all, 0, reverse)
			if err != nil {
				return 0, err
			}
			for ; sc.Valid() && err == nil; n++ {
				err = sc.Next()
			}
			return n, errors.Join(err, sc.Close())
		}
	}
	for _, flushed := range []bool{false, true} {
		if flushed {
			require.NoError(t, s.db.Flush())
		}
		for name, read := range reads {
			var n int
			require.NoError(t, within(t, name, func() (err error) { n, err = read(); return err }), name)
			require.Zero(t, n, name)
		}
	}
	runGC(t, s)
	for name, read := range reads {
		_, err := read()
		require.ErrorIs(t, err, kv.ErrSnapshotTooOld, name)
	}
}
