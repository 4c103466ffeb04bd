package blackbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// shell runs fastddl ctl against a node, as a user whose home has an option file.
type shell struct {
	t    *testing.T
	n    *node
	home string
}

func newShell(t *testing.T, n *node) *shell {
	s := &shell{t: t, n: n, home: t.TempDir()}
	host, port, err := net.SplitHostPort(n.addr)
	require.NoError(t, err)
	s.options("host=" + host + "\nport=" + port + "\n[mysql]\ndatabase = 'test' # the default\n")
	return s
}

// options writes ~/.my.cnf.
func (s *shell) options(text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.home, ".my.cnf"), []byte("[client]\n"+text), 0o600))
}

func (s *shell) env() []string { return []string{"HOME=" + s.home} }

// ctl runs a command and returns its exit code and output.
func (s *shell) ctl(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	cmd := exec.Command(binary, append([]string{"ctl"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), s.env()...)
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.True(s.t, errors.As(err, &exit), "%v", err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// ok runs a command that must end with 0, and returns its output.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	code, stdout, stderr := s.ctl(args...)
	require.Zero(s.t, code, "%v: %s%s", args, stdout, stderr)
	return stdout
}

// fails runs a command that must end with a code, and returns what it has said.
func (s *shell) fails(code int, args ...string) string {
	s.t.Helper()
	got, stdout, stderr := s.ctl(args...)
	require.Equal(s.t, code, got, "%v: %s%s", args, stdout, stderr)
	return stdout + stderr
}

// objects runs a command that writes an array of JSON.
func (s *shell) objects(args ...string) (all []map[string]any) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.ok(append(args, "--json")...)), &all))
	return all
}

// TestCtl: each command of fastddl ctl on one server, as its page in docs shows them.
func TestCtl(t *testing.T) {
	randtest.SkipShort(t)
	files := t.TempDir()
	n := startNode(t, t.TempDir(), "--config", secureConfig(t, files))
	db := n.db()
	fill(t, db, "t", 20_000)
	s := newShell(t, n)

	t.Run("run", func(t *testing.T) {
		out := s.ok("run", "ALTER TABLE t ADD INDEX k1 (k)")
		require.True(t, strings.HasPrefix(out, "ALTER TABLE t ADD INDEX k1 (k)\n"), out)
		require.Regexp(t, `done in [^\n]+: 20\.0K rows, `, out)
		require.NotContains(t, out, "\r", "no terminal")
		require.Contains(t, indexNames(t, db, "t"), "k1")
		require.Equal(t, "fastddl ctl", value(t, db, "SELECT program_name FROM mysql.fastddl_ddl_jobs ORDER BY job_id DESC LIMIT 1"))

		var end map[string]any
		lines := strings.Split(strings.TrimSpace(s.ok("run", "--json", "CREATE INDEX k2 ON t (k)")), "\n")
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &end))
		require.Equal(t, []any{"end", "done", 0.0}, []any{end["event"], end["outcome"], end["exit_code"]})
		require.Equal(t, "synced", end["job"].(map[string]any)["state"])

		require.Contains(t, s.ok("run", "ALTER TABLE t ADD COLUMN added INT"), "done in ")
		require.Contains(t, s.fails(1, "run", "ALTER TABLE nothing ADD INDEX (k)"), "ERROR 1146")
		require.Contains(t, s.fails(2, "run", "SELECT 1"), "statements that change a definition")
		mustExec(t, db, "CREATE TABLE twice (id INT PRIMARY KEY, k INT)")
		mustExec(t, db, "INSERT INTO twice VALUES (1,7),(2,7)")
		said := s.fails(1, "run", "ALTER TABLE twice ADD UNIQUE u (k)")
		require.Contains(t, said, "fastddl: ERROR 1062 (23000): Duplicate entry '7' for key 'twice.u'")
		require.Contains(t, said, "fastddl ctl history ")
		id := strings.Fields(after(said, "fastddl ctl history "))[0]
		require.Contains(t, s.ok("history", id), "rows that the index cannot have:")
		require.Contains(t, s.ok("history"), "rollback done")
		require.Len(t, s.objects("history", "--limit", "2"), 2)
	})

	t.Run("explain", func(t *testing.T) {
		require.Regexp(t, `verdict +fits`, s.ok("explain", "ALTER TABLE t ADD INDEX k3 (k)"))
		var document map[string]any
		require.NoError(t, json.Unmarshal([]byte(s.ok("explain", "--json", "explain alter table t add index k3 (k)")), &document))
		require.Equal(t, "fits", document["verdict"])
		require.Contains(t, s.fails(5, "explain", "ALTER TABLE twice ADD UNIQUE u (k)"), "Duplicate entry '7'")
		s.fails(5, "explain", "--json", "ALTER TABLE twice ADD UNIQUE u (k)")
		s.fails(2, "explain", "SELECT 1")
	})

	t.Run("publish", func(t *testing.T) {
		out := s.ok("run", "--publish", "manual", "--threads", "1", "ALTER TABLE t ADD INDEX later (k)")
		id := strings.TrimSpace(after(out, "not public yet: fastddl ctl publish "))
		require.NotContains(t, indexNames(t, db, "t"), "later")
		require.Regexp(t, id+` +test\.t +ready`, s.ok("jobs"))
		require.Equal(t, "ready", s.objects("jobs")[0]["step"])
		require.Contains(t, s.ok("publish", id), "successful")
		require.Contains(t, s.ok("watch", id), "done in ")
		require.Contains(t, indexNames(t, db, "t"), "later")
		require.Contains(t, s.ok("jobs"), "no index is being built")
	})

	t.Run("users", func(t *testing.T) {
		mustExec(t, db, "CREATE USER stranger IDENTIFIED BY 'p w' REQUIRE SSL")
		require.Contains(t, s.ok("-ustranger", "-pp w", "-D", "", "history"), "no index build has ended")
		require.Contains(t, s.fails(1, "-ustranger", "-pp w", "-D", "", "cancel", "99999"), "8121")
		require.Contains(t, s.fails(1, "-ustranger", "-pwrong", "jobs"), "1045")
		require.Contains(t, s.fails(1, "-ustranger", "-pp w", "-D", "", "--skip-ssl", "jobs"), "1045")
		require.Contains(t, s.fails(2, "--login-path=x", "jobs"), "not supported")
		require.Contains(t, s.fails(2, "jobs", "--nonsense"), "unknown flag")
		require.Contains(t, s.fails(2, "pause"), "requires at least 1 arg")
		require.Contains(t, s.fails(2, "nonsense"), `unknown command "nonsense"`)
		require.Contains(t, s.fails(1, "-P", "1", "jobs"), "connection refused")
	})

	t.Run("load and backup", func(t *testing.T) {
		require.Contains(t, s.ok("load", dumpOf(t, 1, 2, 10)), "1 table, 20 rows loaded")
		require.Equal(t, "20", value(t, db, "SELECT COUNT(*) FROM big.t0"))
		require.Regexp(t, `^backup of [^\n]+ in `+files+`/b1, as of timestamp [0-9]+, taken in `, s.ok("backup", filepath.Join(files, "b1")))
		require.Contains(t, s.fails(2, "backup", "b2"), "give its whole path")
		require.Contains(t, s.fails(1, "backup", filepath.Join(files, "b1")), "8124")
	})
}
