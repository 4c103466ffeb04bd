package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGarbageCollectionBegins: TiDB's garbage collection, which waits for the statistics,
// begins by itself.
func TestGarbageCollectionBegins(t *testing.T) {
	c := newEnv(t).client()
	require.Eventually(t, func() bool {
		return c.one("SELECT COUNT(*) FROM mysql.tidb WHERE variable_name = 'tikv_gc_leader_uuid'") == "1"
	}, time.Minute, 10*time.Millisecond)
}
