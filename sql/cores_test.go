package sql_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/disttask/framework/storage"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/stretchr/testify/require"

	"fastddl/flow"
	"fastddl/internal/randtest"
)

// TiDB's distributed tasks take GOMAXPROCS for the number of a node's cores. What they write down while
// processors are reserved for a build is put right, or a task that is submitted next waits for ever.
func TestDistributedTasksKnowTheCores(t *testing.T) {
	randtest.SkipShort(t)
	c := newEnv(t).client()
	manager, err := storage.GetTaskManager()
	require.NoError(t, err)
	cores := flow.Cores()
	host := c.one("SELECT host FROM mysql.dist_framework_meta")
	ctx := tidbkv.WithInternalSourceType(t.Context(), tidbkv.InternalDistTask)
	for _, during := range []bool{true, false} {
		release := flow.Reserve(3)
		require.GreaterOrEqual(t, runtime.GOMAXPROCS(0), cores+3)
		require.NoError(t, manager.RecoverMeta(ctx, host, ""))
		if !during {
			release()
		}
		require.Eventually(t, func() bool {
			return c.one("SELECT cpu_count FROM mysql.dist_framework_meta") == fmt.Sprint(cores)
		}, hangTimeout, 20*time.Millisecond)
		release()
	}
}
