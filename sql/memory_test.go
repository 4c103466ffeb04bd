package sql_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClosedLayersAreFreed: nothing in TiDB's global state keeps a closed layer in memory but the one that was opened last.
func TestClosedLayersAreFreed(t *testing.T) {
	var freed atomic.Int32
	const closed = 3
	for range closed {
		e := open(t, t.TempDir())
		runtime.AddCleanup(e.Layer.Domain(), func(struct{}) { freed.Add(1) }, struct{}{})
		e.close()
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return freed.Load() >= closed-1
	}, hangTimeout, 10*time.Millisecond)
}
