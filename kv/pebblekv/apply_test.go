package pebblekv

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/errs"
	"fastddl/internal/invariants"
	"fastddl/kv"
)

// TestTooLargeForABatch: a commit that the engine cannot take in one batch, where it would panic, is refused.
func TestTooLargeForABatch(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	s.maxBatch = 1 << 10
	err := writeKeys(t.Context(), s, 400, "a", "b", "c")
	var large *kv.TxnTooLargeError
	require.ErrorAs(t, err, &large)
	require.ErrorIs(t, err, kv.ErrTxnTooLarge)
	require.Greater(t, large.Size, large.Limit)
	require.NotErrorIs(t, err, kv.ErrResultUndetermined)
	require.NoError(t, s.Healthy())
	require.NoError(t, writeKeys(t.Context(), s, 400, "a", "b"))
	requireReadable(t, s, true, "a", "b")
}

// TestApplyPanics: a commit that panics where the caller's functions are called has failed. It is not in flight for ever, where
// readers and Close would wait for it, and keeps no lock.
func TestApplyPanics(t *testing.T) {
	one := func(yield func(key, value []byte) bool) { yield([]byte("k"), []byte("v")) }
	calls := 0
	for name, c := range map[string]struct {
		writes Writes
		opts   ApplyOptions
	}{
		"writes": {func(func(key, value []byte) bool) { panic("injected") }, ApplyOptions{}},
		"writes while they are looked at first": {func(func(key, value []byte) bool) {
			if calls++; calls == 1 {
				panic("injected")
			}
		}, ApplyOptions{SizeHint: 1 << 40}},
		"announce": {one, ApplyOptions{Announce: func(uint64) { panic("injected") }}},
	} {
		t.Run(name, func(t *testing.T) {
			fs := newCappedFS(fullDiskBytes)
			s := openCapped(t, fs, nil)
			var panicked *errs.PanicError
			require.NotPanics(t, func() {
				_, err := s.Apply(t.Context(), c.writes, c.opts)
				require.ErrorAs(t, err, &panicked)
				require.NotErrorIs(t, err, kv.ErrResultUndetermined)
			})
			require.NoError(t, within(t, "writing", func() error { return writeKeys(t.Context(), s, 10, "a") }))
			requireReadable(t, s, true, "a")
			requireReadable(t, s, false, "k")
			s.gate.mu.Lock()
			inside := s.gate.inside
			s.gate.mu.Unlock()
			require.Equal(t, 2, inside, "only the work in the background is under way")
		})
	}
}

// TestAssertionsOfACommitGoOn: who tries a commit again must not hide one that does not hold.
func TestAssertionsOfACommitGoOn(t *testing.T) {
	s := openCapped(t, newCappedFS(fullDiskBytes), nil)
	violation := invariants.Violation("injected")
	require.PanicsWithValue(t, violation, func() {
		_, _ = s.apply(func(func(key, value []byte) bool) { panic(violation) }, ApplyOptions{})
	})
}
