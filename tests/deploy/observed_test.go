package deploy

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
)

// emptyInHealth are metrics that have no series before what they count has happened once.
var emptyInHealth = []string{"fastddl_ddl_retries_total"}

// metricName is a metric in an expression.
var metricName = regexp.MustCompile(`\b(?:(?:fastddl|tidb|process)_[a-z0-9_]+|up\b)`)

// questions are the expressions that a server under a build has to answer: those of the dashboard, and the metrics of
// the alerts, which themselves are to be empty.
func questions(t *testing.T) (all []string) {
	t.Helper()
	metrics := func(expr string) []string { return metricName.FindAllString(expr, -1) }
	mayBeEmpty := func(m string) bool { return slices.Contains(emptyInHealth, m) }
	for _, p := range readDashboard(t).Panels {
		for _, e := range p.Targets {
			require.NotEmpty(t, metrics(e.Expr), e.Expr)
			if !slices.ContainsFunc(metrics(e.Expr), mayBeEmpty) {
				all = append(all, asked(e.Expr))
			}
		}
	}
	for _, a := range alertsOf(t) {
		require.NotEmpty(t, metrics(a.Expr), a.Expr)
		all = append(all, slices.DeleteFunc(metrics(a.Expr), mayBeEmpty)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestEveryExpressionIsAnswered: a real Prometheus scrapes a server of the example configuration while a build waits for a
// transaction, and then for its write limit, beside statements. Each expression of the dashboard and each alert is valid and has an
// answer at some time. The build's end is one line of JSON.
func TestEveryExpressionIsAnswered(t *testing.T) {
	randtest.SkipShort(t)
	installed(t, "prometheus") // first: a server takes longer
	config, logFile := exampleConfig(t)
	n := servertest.Start(t, binary, t.TempDir(), "--config", config)
	db := n.Open("test")
	mustExec(t, db, "CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, k INT)")
	mustExec(t, db, "INSERT INTO orders (k) VALUES "+strings.TrimSuffix(strings.Repeat("(1),", 10_000), ","))
	p := startPrometheus(t, n.Status)

	holder, err := db.Begin()
	require.NoError(t, err)
	_, err = holder.Exec("UPDATE orders SET k = 2 WHERE id = 1")
	require.NoError(t, err)
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 1000") // it lasts until that is lifted
	built := make(chan error, 1)
	go func() {
		_, err := n.Open("test").Exec("ALTER TABLE orders ADD INDEX observed (k)")
		built <- err
	}()
	defer foreground(t, n.Open("test"))()

	open := questions(t)
	ask := func() {
		open = slices.DeleteFunc(open, func(expr string) bool { return p.series(expr) > 0 })
	}
	waits := func() bool { return p.series(`fastddl_ddl_job_wait_seconds{reason="metadata lock"}`) > 0 }
	require.Eventually(t, waits, servertest.StartTimeout, 200*time.Millisecond, "the build waits for a transaction")
	ask()
	require.NoError(t, holder.Commit())
	require.Eventually(t, func() bool { ask(); return len(open) == 0 }, servertest.StartTimeout, 500*time.Millisecond, "%s", unanswered{&open})
	for _, a := range alertsOf(t) {
		p.series(a.Expr) // valid, though empty
	}
	for _, a := range readDashboard(t).Annotations.List {
		p.series(asked(a.Expr))
	}
	p.requireRulesEvaluated(alertNames(alertsOf(t)))

	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	require.NoError(t, <-built)
	_, err = db.Exec("ALTER TABLE orders ADD UNIQUE INDEX failing (k)")
	require.ErrorContains(t, err, "Duplicate entry '1' for key 'orders.failing'")
	ends := endsInLog(t, logFile, 2)
	requirePublished(t, ends[0])
	requireUndone(t, ends[1])
	require.Eventually(t, func() bool { return p.series(`ALERTS{alertname="FastddlBuildFailed",alertstate="firing"}`) == 1 },
		servertest.StartTimeout, 200*time.Millisecond)
}

// unanswered shows the expressions that a slice has when it is printed.
type unanswered struct{ exprs *[]string }

func (u unanswered) String() string { return "without an answer:\n" + strings.Join(*u.exprs, "\n") }

func mustExec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	_, err := db.Exec(query)
	require.NoError(t, err)
}

// foreground executes statements, some of which fail, until the returned function is called.
func foreground(t *testing.T, db *sql.DB) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = db.ExecContext(ctx, "SELECT COUNT(*) FROM orders WHERE id < 10") // ends with ctx
			_, _ = db.ExecContext(ctx, "INSERT INTO orders VALUES (1, 1)")          // 1062
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// endOfBuild is the line of the log that a build ends with.
type endOfBuild struct {
	Level, Message string
	Build          *struct {
		DB      string `json:"db_name"`
		Table   string `json:"table_name"`
		Indexes string
		State   string
		Query   string
		Error   string
		User    string  `json:"user_name"`
		Seconds float64 `json:"seconds"`
		Rows    int64   `json:"row_count"`
		Read    int64   `json:"read_bytes"`
		Written int64   `json:"written_bytes"`
		Stages  []struct {
			Stage   string
			Seconds float64
		}
		Held     map[string]float64 `json:"held_seconds"`
		Waited   []waited           `json:"waited_for"`
		Verified string
	}
}

type waited struct {
	Reason string
	ConnID uint64 `json:"conn_id"`
}

// endsInLog waits until so many builds have ended by the log, of which each line is JSON. No build ends twice.
func endsInLog(t *testing.T, logFile string, builds int) (ends []endOfBuild) {
	t.Helper()
	require.Eventually(t, func() bool {
		ends = nil
		for text := range strings.Lines(readFile(t, logFile)) {
			if !strings.HasSuffix(text, "\n") { // being written
				continue
			}
			var l endOfBuild
			require.NoError(t, json.Unmarshal([]byte(text), &l), text)
			if l.Build != nil {
				ends = append(ends, l)
			}
		}
		return len(ends) >= builds
	}, servertest.StartTimeout, 100*time.Millisecond)
	require.Len(t, ends, builds)
	return ends
}

// requirePublished: who, what, what it has cost, how long its stages took, and what it waited for.
func requirePublished(t *testing.T, end endOfBuild) {
	t.Helper()
	b := end.Build
	require.Equal(t, "INFO", end.Level)
	require.Contains(t, end.Message, "on test.orders has ended: synced, 10000 rows read in ")
	require.Equal(t, []string{"test", "orders", "observed", "synced"}, []string{b.DB, b.Table, b.Indexes, b.State})
	require.Contains(t, b.User, "root@")
	require.Contains(t, b.Query, "ADD INDEX observed")
	require.EqualValues(t, 10_000, b.Rows)
	require.Positive(t, b.Seconds)
	require.Positive(t, b.Read)
	require.Positive(t, b.Written)
	require.NotEmpty(t, b.Verified)
	var stages []string
	for _, s := range b.Stages {
		stages = append(stages, s.Stage)
	}
	require.Subset(t, stages, []string{"wait", "scan", "merge"})
	require.Positive(t, b.Held["tidb_ddl_reorg_max_write_speed"])
	require.True(t, slices.ContainsFunc(b.Waited, func(w waited) bool { return w.Reason == "metadata lock" && w.ConnID != 0 }), "%+v", b.Waited)
}

// requireUndone: why, without the values of rows.
func requireUndone(t *testing.T, end endOfBuild) {
	t.Helper()
	require.Equal(t, "WARN", end.Level)
	require.Equal(t, "rollback done", end.Build.State)
	require.Contains(t, end.Build.Error, "Duplicate entry '?' for key 'orders.failing'")
}

// exampleConfig is deploy/fastddl.toml with its log and its socket in folders of the test.
func exampleConfig(t *testing.T) (config, logFile string) {
	t.Helper()
	dir := t.TempDir()
	text := readFile(t, deployed("fastddl.toml"))
	replace := func(old, with string) {
		require.Equal(t, 1, strings.Count(text, old), old)
		text = strings.Replace(text, old, with, 1)
	}
	config, logFile = filepath.Join(dir, "fastddl.toml"), filepath.Join(dir, "fastddl.log")
	replace(`"/var/log/fastddl/fastddl.log"`, fmt.Sprintf("%q", logFile))
	replace(`socket = "/run/fastddl/fastddl.sock"`, "")
	writeFile(t, config, text)
	return config, logFile
}

// TestHealthCheckOfTheImage: the command in the Dockerfile succeeds on a server that serves, and fails without one.
func TestHealthCheckOfTheImage(t *testing.T) {
	installed(t, "bash")
	n := servertest.Start(t, binary, t.TempDir())
	_, port, ok := strings.Cut(n.Status, ":")
	require.True(t, ok)
	check := healthCheck(t, port)
	runs(t, check[0], check[1:]...)
	n.Kill()
	require.Error(t, commandOf(t, check).Run())
}
