package blackbox

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

func TestDemo(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	out, err := exec.Command(binary, "demo", "--rows", "5000", "--phase", "1s", "--dir", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	text := string(out)
	for _, want := range []string{
		"5000 rows loaded", "ALTER TABLE sbtest1 ADD INDEX k_1 (k)", "5000 rows,",
		"ADMIN CHECK TABLE: index and rows agree", "transactions/s", "p99 ms", "before      during       after",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "\r", "no moving bar where there is no terminal")
	requireEmptyDir(t, dir)
}

func TestDemoInterrupted(t *testing.T) {
	randtest.SkipShort(t)
	for _, after := range []string{"server on", "load:"} {
		dir := t.TempDir()
		cmd := exec.Command(binary, "demo", "--rows", "50000", "--phase", "20s", "--dir", dir)
		out := &lockedBuffer{}
		cmd.Stdout, cmd.Stderr = out, out
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { return strings.Contains(out.String(), after) }, startTimeout, pollInterval)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.Error(t, cmd.Wait())
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), out.String())
		require.Contains(t, out.String(), "fastddl: interrupted")
		requireEmptyDir(t, dir)
	}
}

// TestDemoWithoutReader is `fastddl demo | head -1`.
func TestDemoWithoutReader(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	cmd := exec.Command(binary, "demo", "--rows", "5000", "--phase", "1s", "--dir", dir)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stdout.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, stdout.Close())
	require.Error(t, cmd.Wait())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	requireEmptyDir(t, dir)
}

func requireEmptyDir(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestBenchAddIndex(t *testing.T) {
	randtest.SkipShort(t)
	for _, fast := range []string{"on", "off"} {
		cmd := exec.Command(binary, "bench", "addindex", "--rows", "20000", "--runs", "2", "--columns", "k,c(10)", "--fast-reorg", fast)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		require.NoError(t, cmd.Run(), "%s", stderr.String())
		var result struct {
			Rows          int
			Index         string
			FastReorg     bool    `json:"fast_reorg"`
			MedianSeconds float64 `json:"median_seconds"`
			Ratio         float64
			Floor         struct{ Seconds float64 }
			Runs          []struct {
				Seconds      float64
				PeakRSSBytes int64 `json:"peak_rss_bytes"`
				Backfill     struct {
					Rows   int64
					Stages map[string]struct {
						CPUSeconds float64 `json:"cpu_seconds"`
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &result))
		require.Equal(t, 20000, result.Rows)
		require.Equal(t, "k, c(10)", result.Index)
		require.Equal(t, fast == "on", result.FastReorg)
		require.Positive(t, result.MedianSeconds)
		require.Positive(t, result.Floor.Seconds)
		require.Positive(t, result.Ratio)
		require.Len(t, result.Runs, 2)
		for _, run := range result.Runs {
			require.Equal(t, int64(20000), run.Backfill.Rows)
			require.Positive(t, run.Seconds)
			require.Positive(t, run.PeakRSSBytes)
			if fast == "on" {
				require.Positive(t, run.Backfill.Stages["scan"].CPUSeconds)
			}
		}
	}
}

func TestSIGTERMDuringAddIndex(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	fill(t, db, "g", 40_000)
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 8192")
	done := make(chan error, 1)
	go func() {
		_, err := db.Exec("ALTER TABLE g ADD INDEX k (k)")
		done <- err
	}()
	runningJob(t, db)
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGTERM))
	// A job that takes minutes does not hold the shutdown up.
	requireCode(t, requireEnds(t, done), 1053, "08S01", "Server shutdown in progress")
	require.Zero(t, n.wait())

	db = startNode(t, dir).db()
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	waitForJobs(t, db)
	require.Equal(t, []string{"PRIMARY", "k"}, indexNames(t, db, "g"), "the job went on after the restart")
	mustExec(t, db, "ADMIN CHECK TABLE g")
}

// Statements by themselves never wait for an ALTER that waits, and it does not wait
// for them.
func TestAlterWaitsForTransactionsOnly(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "w", 1000)

	snapshot := n.terminal()
	snapshot.exec("BEGIN")
	require.Equal(t, "0", snapshot.value("SELECT 0"))
	mustExec(t, db, "ALTER TABLE w ADD INDEX a (k)") // a transaction that has not used the table holds nothing up
	snapshot.exec("COMMIT")

	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("UPDATE w SET k = -1 WHERE id = 2")
	require.NoError(t, err)
	done := n.terminal().start("ALTER TABLE w ADD INDEX b (k)")
	waitForBlocker(t, db)
	for range 20 { // no statement queues behind the waiting ALTER
		mustExec(t, db, "UPDATE w SET k = k + 1 WHERE id = 3")
		require.Equal(t, "1000", value(t, db, "SELECT COUNT(*) FROM w"))
	}
	requireWaits(t, done)
	require.NoError(t, tx.Commit())
	require.NoError(t, requireEnds(t, done))
	mustExec(t, db, "ADMIN CHECK TABLE w")
	require.Empty(t, blockers(t, db))
}
