package pebblekv

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestChanged compares random questions with what was written, in memtables and in files
// old and new, with imports and versions that later ones hide.
func TestChanged(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := open(t, "db", Options{FS: vfs.NewMem()})
	key := func(n int) string { return fmt.Sprintf("k%03d", n) }
	const keys = 300
	type written struct {
		key int
		ts  uint64
	}
	var all []written
	first, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	times := []uint64{first}
	for range 40 {
		pairs := make(map[string]string)
		var now []int
		at := r.IntN(keys) // changes of one time lie near each other, so that files differ in time
		for range 1 + r.IntN(5) {
			n := (at + r.IntN(10)) % keys
			pairs[key(n)] = []string{"", "v"}[r.IntN(2)]
			now = append(now, n)
		}
		var ts uint64
		if r.IntN(4) == 0 {
			ts, err = s.CurrentTS(t.Context())
			require.NoError(t, err)
			require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{finishedUnit(t, s, ts, "imported", slices.Sorted(maps.Keys(pairs))...)}))
		} else {
			ts = apply(t, s, ApplyOptions{}, pairs)
		}
		for _, n := range now {
			all = append(all, written{n, ts})
		}
		times = append(times, ts)
		switch r.IntN(6) {
		case 0:
			require.NoError(t, s.db.Flush())
		case 1:
			require.NoError(t, s.db.Compact(t.Context(), appendBare(nil, []byte("a")), appendBare(nil, []byte("z")), false))
		}
		for range 20 {
			after, upTo := times[r.IntN(len(times))], times[r.IntN(len(times))]
			var ranges []kv.KeyRange
			var in []func(int) bool
			for range 1 + r.IntN(3) {
				from, to := r.IntN(keys), r.IntN(keys)
				ranges = append(ranges, kv.KeyRange{Start: []byte(key(from)), End: []byte(key(to))})
				in = append(in, func(n int) bool { return from <= n && n < to })
			}
			want := slices.ContainsFunc(all, func(w written) bool {
				return after < w.ts && w.ts <= upTo && slices.ContainsFunc(in, func(f func(int) bool) bool { return f(w.key) })
			})
			got, err := s.Changed(t.Context(), ranges, after, upTo)
			require.NoError(t, err)
			require.Equal(t, want, got, "%d to %d in %v", after, upTo, ranges)
		}
	}
}

// TestChangedAfterGC: what was collected cannot be seen, so nobody says that it was not there.
func TestChangedAfterGC(t *testing.T) {
	s := gcStore(t)
	before := put(t, s, "a", "1")
	put(t, s, "b", "1")
	gone := put(t, s, "b", "")
	all := []kv.KeyRange{{Start: []byte("b"), End: []byte("c")}}
	changed, err := s.Changed(t.Context(), all, before, gone)
	require.NoError(t, err)
	require.True(t, changed)

	sp := runGC(t, s)
	require.GreaterOrEqual(t, sp, gone)
	require.Len(t, rawVersions(t, s), 1, "nothing is left of b")
	now, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	_, err = s.Changed(t.Context(), all, before, now)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	changed, err = s.Changed(t.Context(), all, sp, now)
	require.NoError(t, err)
	require.False(t, changed)
}
