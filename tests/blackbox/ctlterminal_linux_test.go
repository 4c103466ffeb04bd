package blackbox

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// jobLine is how a command names the build that it watches.
var jobLine = regexp.MustCompile(`job ([0-9]+) on test\.t`)

// watched starts a slow build on a terminal and returns the number of its job.
func (s *shell) watched(index string) (*ptyProcess, string) {
	s.t.Helper()
	p := startOnTerminal(s.t, s.env(), "ctl", "run", "ALTER TABLE t ADD INDEX "+index+" (k)")
	require.Eventually(s.t, func() bool { return jobLine.MatchString(p.screen.String()) }, hangTimeout, pollInterval)
	p.await("  merge ") // which the write limit makes last
	return p, jobLine.FindStringSubmatch(p.screen.String())[1]
}

// TestCtlOnATerminal: the bar stays in its line, Ctrl-C asks and does what is answered, and a build outlives everything but a
// cancellation: the command, and the server too.
func TestCtlOnATerminal(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	fill(t, db, "t", 20_000)
	s := newShell(t, n)
	slow := func(on bool) {
		mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = "+map[bool]string{true: "1000", false: "0"}[on])
	}
	slow(true)

	p, id := s.watched("cancelled")
	p.press(ctrlC)
	p.await("[c]ancel it, [p]ause it, [l]eave it running")
	require.Equal(t, "running", value(t, db, "SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = "+id), "a question does nothing")
	p.press("c\n")
	require.Equal(t, 3, p.exitCode())
	p.lines()
	require.Contains(t, p.screen.String(), "job "+id+" is cancelled: nothing is left of it")
	require.NotContains(t, indexNames(t, db, "t"), "cancelled")

	p, id = s.watched("kept")
	p.press(ctrlC)
	p.await("[p]ause it")
	p.press("p\n")
	require.Equal(t, 4, p.exitCode())
	require.Contains(t, p.screen.String(), "job "+id+" is paused: fastddl ctl resume "+id)
	require.Eventually(t, func() bool { return s.objects("jobs")[0]["state"] == "paused" }, hangTimeout, pollInterval)
	require.Contains(t, s.ok("alter", id, "--threads", "1", "--max-write-speed", "1KiB"), "successful")
	require.Contains(t, s.fails(1, "alter", id, "--window", "nonsense"), "1231")
	require.Contains(t, s.ok("resume", id), "successful")
	require.Contains(t, s.fails(1, "resume", id), "1 of 1 jobs have refused")

	// Two Ctrl-C leave it running; the first signal without a terminal does too.
	p = startOnTerminal(t, s.env(), "ctl", "watch", id)
	p.await("% [")
	p.press(ctrlC)
	p.await("[l]eave")
	p.press(ctrlC)
	require.Equal(t, 4, p.exitCode())
	p.lines()
	require.Contains(t, p.screen.String(), "job "+id+" goes on at the server: fastddl ctl watch "+id)
	out := &lockedBuffer{}
	cmd := exec.Command(binary, "ctl", "watch", id)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), s.env()...), out, out
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "job "+id+" on test.t: ") }, hangTimeout, pollInterval)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, 4, cmd.ProcessState.ExitCode(), out.String())
	require.Contains(t, s.ok("cancel", id), "successful")
	require.Contains(t, s.fails(3, "watch", id), "is cancelled")

	// The server is killed and started again; the command follows the build to its end.
	p, id = s.watched("survivor")
	n.kill()
	p.await("the build goes on at the server, and is followed")
	_, port, err := net.SplitHostPort(n.addr)
	require.NoError(t, err)
	n = startNode(t, dir, "-P", port)
	db = n.db()
	slow(false)
	require.Equal(t, 0, p.exitCode())
	p.lines()
	require.Contains(t, p.screen.String(), "done in ")
	require.Contains(t, indexNames(t, db, "t"), "survivor")
	require.Contains(t, s.ok("history", id), "state: synced")
}
