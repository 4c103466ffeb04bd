package sql_test

import (
	"context"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A layer that is closed while TiDB analyzes partitions by itself does not wait for what never
// runs.
func TestCloseDuringAutoAnalyze(t *testing.T) {
	e := open(t, t.TempDir())
	c := e.client()
	c.run("CREATE TABLE p (a INT PRIMARY KEY, b INT, c VARCHAR(40), KEY (b), KEY (c)) PARTITION BY HASH (a) PARTITIONS 8")
	c.run("INSERT INTO p VALUES (0, 0, 'c')")
	for rows := 1; rows < 1<<14; rows *= 2 { // 2048 in each partition: TiDB leaves those of less than 1000 alone
		c.run("INSERT INTO p SELECT a + %d, a, c FROM p", rows)
	}
	stats := e.Domain().StatsHandle()
	require.Eventually(t, func() bool {
		require.NoError(t, stats.DumpStatsDeltaToKV(true))
		require.NoError(t, stats.Update(context.Background(), e.Domain().InfoSchema()))
		begun := stats.HandleAutoAnalyze()
		if !begun {
			stats.StatsAnalyze.Close() // which makes the queue anew
		}
		return begun
	}, hangTimeout, 5*time.Millisecond)
	require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) > 0 FROM mysql.analyze_jobs") == "1" }, hangTimeout, 5*time.Millisecond)

	closed := make(chan struct{})
	go func() {
		defer close(closed)
		e.close()
	}()
	select {
	case <-closed:
	case <-time.After(hangTimeout):
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		require.Fail(t, "the layer does not close")
	}
}
