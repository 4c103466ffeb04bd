package txn

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestDeadlockHasOneVictim: two requests close a circle in one moment, so that both wait when the first of them looks.
func TestDeadlockHasOneVictim(t *testing.T) {
	for name, kind := range map[string]waitKind{"lock": waitToLock, "prewrite": waitToPrewrite, "optimistic prewrite": waitOptimistic} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, vfs.NewMem(), Options{})
			keys := []string{"a", "b"}
			waiters := make([]*waiter, len(keys))
			for i, key := range keys {
				start := f.ts()
				resp, err := f.lock(start, key)
				require.NoError(t, err)
				require.Empty(t, resp.Errors)
				w := newWaiter(f.table.get([]byte(key)).txn, nil)
				w.kind, w.key = kind, []byte(keys[1-i])
				f.detector.add(w)
				waiters[i] = w
			}
			victims := 0
			for _, w := range waiters {
				if kind == waitToLock && f.detector.detect(w, f.table) != nil || kind != waitToLock && f.detector.isVictim(w, f.table) {
					victims++
				}
			}
			require.Equal(t, 1, victims)
			for _, w := range waiters {
				f.detector.remove(w)
			}
			require.Empty(t, f.detector.waits)
		})
	}
}
