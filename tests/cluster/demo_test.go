package cluster

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
	"fastddl/tests/cluster/standin"
)

// command is the program with a command that runs on the cluster.
func command(t *testing.T, c *standin.Cluster, args ...string) *exec.Cmd {
	t.Helper()
	pd, err := c.Open()
	require.NoError(t, err)
	cmd := exec.Command(binary, append(args, "--store", "tikv", "--path", pd.Path())...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(cmd.Environ(), "TMPDIR="+t.TempDir())
	return cmd
}

// TestBenchAndDemo: what shows and measures on a store of its own does on a cluster, beside
// a node that is in use, and leaves nothing there.
func TestBenchAndDemo(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	db := startNode(t, c).open()
	variables := "SELECT CONCAT_WS(' ', @@GLOBAL.tidb_ddl_reorg_worker_cnt, @@GLOBAL.tidb_ddl_disk_quota, @@GLOBAL.tidb_ddl_enable_fast_reorg, " +
		"@@GLOBAL.tidb_enable_dist_task)"
	db.exec("SET GLOBAL tidb_ddl_reorg_worker_cnt = 7", "SET GLOBAL tidb_ddl_disk_quota = 123456789")
	databases, settings := db.rows("SHOW DATABASES"), db.value(variables)
	untouched := func() {
		t.Helper()
		require.Equal(t, databases, db.rows("SHOW DATABASES"))
		require.Equal(t, settings, db.value(variables))
		db.nothingIsLeft()
	}

	var result struct {
		Rows  int
		Store string
		Floor struct{ Rows int }
		Runs  []struct{ Backfill struct{ Rows, Entries int } }
	}
	bench := command(t, c, "bench", "addindex", "--rows", "5000", "--runs", "2", "--workers", "3", "--disk-quota", "64MiB")
	imported := c.Imports().Imported()
	out, err := bench.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &result), "%s", out)
	require.Equal(t, "tikv", result.Store)
	require.Equal(t, 5000, result.Floor.Rows)
	require.Len(t, result.Runs, 2)
	for _, r := range result.Runs {
		require.Equal(t, 5000, r.Backfill.Entries)
	}
	require.GreaterOrEqual(t, c.Imports().Imported()-imported, 3, "the table and two indexes")
	untouched()

	out, err = command(t, c, "demo", "--rows", "2000", "--threads", "2", "--phase", "500ms").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "built online")
	require.Contains(t, string(out), "index and rows agree")
	untouched()
}

// TestDemoIsInterrupted in the middle of its build, which goes with it.
func TestDemoIsInterrupted(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	db := startNode(t, c).open()
	databases := db.rows("SHOW DATABASES")
	busy := slowIngest(c)
	defer busy.Remove()
	demo := command(t, c, "demo", "--rows", "1000", "--threads", "1", "--phase", "100ms")
	out := &servertest.Buffer{}
	demo.Stdout, demo.Stderr = out, out
	require.NoError(t, demo.Start())
	done := make(chan error, 1)
	go func() { done <- demo.Wait() }()
	t.Cleanup(func() { _ = demo.Process.Kill() }) // it may have ended
	eventually(t, "the build waits for the store", func() bool { return busy.Hits() > 0 })
	require.NoError(t, demo.Process.Signal(syscall.SIGINT))
	select {
	case err := <-done:
		require.Error(t, err)
	case <-time.After(hangTimeout):
		require.FailNow(t, "it has not ended", out.String())
	}
	require.Equal(t, databases, db.rows("SHOW DATABASES"), out.String())
	db.nothingIsLeft()
}

// TestForeignDatabase: a database that was there before is not the benchmark's to work in, or
// to drop.
func TestForeignDatabase(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	db := startNode(t, c).open()
	db.exec("CREATE DATABASE fastddl_bench", "CREATE TABLE fastddl_bench.t (id INT PRIMARY KEY)", "INSERT INTO fastddl_bench.t VALUES (7)")
	bench := command(t, c, "bench", "addindex", "--rows", "1000")
	var stderr bytes.Buffer
	bench.Stderr = &stderr
	require.Error(t, bench.Run())
	require.Contains(t, stderr.String(), "database exists")
	require.Equal(t, "7", db.value("SELECT id FROM fastddl_bench.t"))
}
