package pebblekv

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// fillSpace commits and imports about n MiB that do not compress under a prefix.
func fillSpace(t *testing.T, s *Store, dir, prefix string, n int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(n), 0))
	value := func() []byte {
		b := make([]byte, 1<<10)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	for part := range n {
		pairs := make(map[string]string)
		for i := range 512 {
			pairs[fmt.Sprintf("%s/%04d/%06d", prefix, part, i)] = string(value())
		}
		_, err := commit(t.Context(), s, pairs)
		require.NoError(t, err)
	}
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: dir, Version: version})
	require.NoError(t, err)
	for i := range n * 512 {
		require.NoError(t, w.Add(fmt.Appendf(nil, "%s/i/%06d", prefix, i), value()))
	}
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}))
}

// TestDeletedRangesGiveSpaceBack: for data from commits and imports, deleted at
// once or in pieces, the space comes back by itself, and the data beside it stay.
func TestDeletedRangesGiveSpaceBack(t *testing.T) {
	const size = 24
	for _, pieces := range []bool{false, true} {
		t.Run(fmt.Sprintf("pieces=%v", pieces), func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), Options{DisableSync: true})
			dir := t.TempDir()
			fillSpace(t, s, dir, "b", size)
			put(t, s, "a", "before", "c", "behind")
			require.NoError(t, s.db.Flush())
			full := s.db.Metrics().DiskSpaceUsage()
			require.Greater(t, full, uint64(size)<<20)

			whole := kv.PrefixRange([]byte("b/"))
			ranges := []kv.SizedRange{{KeyRange: whole}}
			if pieces {
				var err error
				ranges, err = s.Ranges(t.Context(), whole)
				require.NoError(t, err)
				require.Greater(t, len(ranges), 1)
			}
			for _, r := range ranges {
				require.NoError(t, s.DeleteRange(t.Context(), r.KeyRange))
			}
			tables := func() (bytes int64) {
				for _, level := range s.db.Metrics().Levels {
					bytes += level.TablesSize
				}
				return bytes + int64(s.db.Metrics().Table.ObsoleteSize+s.db.Metrics().Table.ZombieSize)
			}
			require.Eventually(t, func() bool { return tables() < 1<<20 }, 5*soon, 50*time.Millisecond,
				"the space does not come back")
			ts, err := s.CurrentTS(t.Context())
			require.NoError(t, err)
			snap, err := s.Snapshot(t.Context(), ts)
			require.NoError(t, err)
			defer snap.Close()
			for _, key := range []string{"a", "c"} {
				_, err := snap.Get(t.Context(), []byte(key))
				require.NoError(t, err)
			}
		})
	}
}

// TestSizes: what a store takes and what its disk has are asked, not remembered.
func TestSizes(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, nil)
	before, err := s.Sizes()
	require.NoError(t, err)
	require.Equal(t, uint64(fullDiskBytes), before.DiskTotal)
	require.NoError(t, writeKeys(t.Context(), s, 100<<10, "a", "b"))
	require.NoError(t, s.db.Flush())
	fs.fill(20 << 20)
	after, err := s.Sizes()
	require.NoError(t, err)
	require.Greater(t, after.Store, before.Store)
	require.LessOrEqual(t, after.DiskFree, uint64(20<<20))
	require.NoError(t, s.Close())
	_, err = s.Sizes()
	require.Error(t, err)
}
