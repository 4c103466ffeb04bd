package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// TestChanges compares random questions with what was written, in memtables and in files
// old and new, with imports and versions that later ones hide.
func TestChanges(t *testing.T) {
	r := randtest.Rand(t)
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
			from, to := r.IntN(keys), r.IntN(keys)
			want := make(map[string]bool)
			for _, w := range all {
				if after < w.ts && w.ts <= upTo && from <= w.key && w.key < to {
					want[key(w.key)] = true
				}
			}
			got := changes(t, s, key(from), key(to), after, upTo)
			require.Equal(t, slices.Sorted(maps.Keys(want)), got, "%d to %d in [%d, %d)", after, upTo, from, to)
		}
	}
}

// changes returns the keys from a key up to another that have changed.
func changes(t *testing.T, s *Store, from, to string, after, upTo uint64) (keys []string) {
	t.Helper()
	err := s.Changes(t.Context(), kv.KeyRange{Start: []byte(from), End: []byte(to)}, after, upTo, func(key []byte) error {
		keys = append(keys, string(key))
		return nil
	})
	require.NoError(t, err)
	return keys
}

// TestChangesEndWithAnError: with that of the callback, or of the context.
func TestChangesEndWithAnError(t *testing.T) {
	s := gcStore(t)
	before := put(t, s, "a", "1")
	put(t, s, "b", "1")
	after := put(t, s, "c", "1")
	all := kv.KeyRange{Start: []byte("a"), End: []byte("z")}
	calls := 0
	failed := errors.New("enough")
	err := s.Changes(t.Context(), all, before, after, func([]byte) error { calls++; return failed })
	require.ErrorIs(t, err, failed)
	require.Equal(t, 1, calls)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Changes(ctx, all, before, after, func([]byte) error { return nil }), context.Canceled)
}

// TestChangesAfterGC: what was collected cannot be seen, so Changes fails instead of missing it.
func TestChangesAfterGC(t *testing.T) {
	s := gcStore(t)
	before := put(t, s, "a", "1")
	put(t, s, "b", "1")
	gone := put(t, s, "b", "")
	require.Equal(t, []string{"b"}, changes(t, s, "b", "c", before, gone))

	sp := runGC(t, s)
	require.GreaterOrEqual(t, sp, gone)
	require.Len(t, rawVersions(t, s), 1, "nothing is left of b")
	now, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	err = s.Changes(t.Context(), kv.KeyRange{Start: []byte("b"), End: []byte("c")}, before, now, func([]byte) error { return nil })
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	require.Empty(t, changes(t, s, "b", "c", sp, now))
}
