package embedded

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestGarbageCollectionWaitsForStatistics: TiDB's garbage collection does not execute statements while TiDB replaces the cache
// of statistics, which has no protection against that, and begins afterwards.
func TestGarbageCollectionWaitsForStatistics(t *testing.T) {
	s := openSQL(t, "db", vfs.NewMem())
	defer s.close()
	st := s.Storage().(*storage)
	running := func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.gcWorker != nil
	}
	for end := time.Now().Add(time.Minute); !running(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "it does not begin")
	}
	select {
	case <-s.domain.StatsHandle().InitStatsDone:
	default:
		require.Fail(t, "it began before the statistics were loaded")
	}
	se := s.session()
	defer se.Close()
	rows, err := query(se, "SELECT COUNT(*) FROM mysql.tidb WHERE variable_name = 'tikv_gc_leader_uuid'")
	require.NoError(t, err)
	require.Equal(t, [][]string{{"1"}}, rows, "it has not done anything")
}

// A store that is closed while TiDB starts does not wait for statistics that never come.
func TestCloseDoesNotWaitForStatistics(t *testing.T) {
	for range 3 {
		openSQL(t, "db", vfs.NewMem()).close()
	}
}
