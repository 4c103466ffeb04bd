package blackbox

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// metric returns the line of a metric without labels.
func (n *node) metric(name string) string {
	n.t.Helper()
	resp, err := http.Get("http://" + n.status + "/metrics")
	require.NoError(n.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(n.t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestIdleBlockersAreEnded(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, t.TempDir())
	db := n.db()
	require.Equal(t, "0s", value(t, db, "SELECT @@fastddl_mdl_idle_blocker_timeout"))
	writer, alter, _ := alterBehindWriter(t, n)
	reader := n.terminal()
	reader.exec("BEGIN")
	require.Equal(t, "200", reader.value("SELECT COUNT(*) FROM t"))
	time.Sleep(2 * time.Second)
	requireWaits(t, alter) // off by default

	mustExec(t, db, "SET GLOBAL fastddl_mdl_idle_blocker_timeout = '1s'")
	require.NoError(t, requireEnds(t, alter), "also a wait under way takes the value")
	require.Error(t, writer.try("COMMIT"), "its session was killed")
	requireGone(t, db, writer.id)
	require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM t WHERE k = -1"))
	require.Error(t, reader.try("COMMIT"), "who has only read holds the lock too")
	mustExec(t, db, "ADMIN CHECK TABLE t")

	require.Equal(t, "2", n.metric("fastddl_ddl_idle_blockers_ended_total"))
	var logged string
	for line := range strings.Lines(n.stderr.String()) {
		if strings.Contains(line, "ended connection "+writer.id) {
			logged = line
		}
	}
	require.Contains(t, logged, "WARN")
	require.Contains(t, logged, "update `t` set", "without its literals, as TiDB remembers statements")
}

func TestIdlePolicySparesSessionsAtWork(t *testing.T) {
	randtest.SkipShort(t)
	for range 5 {
		if idlePolicySparesSessionsAtWork(t) {
			return
		}
	}
	require.FailNow(t, "this machine pauses for seconds")
}

// idlePolicySparesSessionsAtWork returns false if the test itself has paused for too long.
func idlePolicySparesSessionsAtWork(t *testing.T) bool {
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "t", 200)
	mustExec(t, db, "SET GLOBAL fastddl_mdl_idle_blocker_timeout = '5s'")

	sleeper, worker, outside := n.terminal(), n.terminal(), n.terminal()
	outside.exec("CREATE TABLE elsewhere (id INT PRIMARY KEY)")
	outside.exec("BEGIN")
	outside.exec("INSERT INTO elsewhere VALUES (1)")
	for i, c := range []*terminal{sleeper, worker} {
		c.exec("BEGIN")
		c.exec("UPDATE t SET k = -1 WHERE id = ?", 1+i)
	}
	sleeping := sleeper.start("SELECT SLEEP(12)")
	running(t, db, sleeper.id)
	alter := n.terminal().start("ALTER TABLE t ADD INDEX k (k)")
	updates := 0
	last := time.Now()
	for began := last; time.Since(began) < 7*time.Second; updates++ { // it never pauses for as long
		time.Sleep(200 * time.Millisecond)
		err := worker.try("UPDATE t SET k = -2 WHERE id = ?", 10+updates%20)
		if time.Since(last) > 4*time.Second {
			return false
		}
		require.NoError(t, err)
		last = time.Now()
	}
	require.Len(t, blockers(t, db), 2)
	requireWaits(t, alter)
	worker.exec("COMMIT")
	require.NoError(t, requireEnds(t, sleeping), "a statement is never ended for its length")
	sleeper.exec("COMMIT")
	require.NoError(t, requireEnds(t, alter))
	outside.exec("COMMIT") // no build waited for it
	require.Equal(t, fmt.Sprint(2+min(updates, 20)), value(t, db, "SELECT COUNT(*) FROM t WHERE k < 0"))
	mustExec(t, db, "ADMIN CHECK TABLE t")
	require.Equal(t, "0", n.metric("fastddl_ddl_idle_blockers_ended_total"))
	return true
}

func TestIdleTimeoutIsAVariable(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	const name = "fastddl_mdl_idle_blocker_timeout"
	mustExec(t, db, "SET GLOBAL "+name+" = '90s'")
	require.Equal(t, "1m30s", value(t, db, "SELECT @@global."+name))
	_, err := db.Exec("SET GLOBAL " + name + " = 'soon'")
	requireCode(t, err, 1231, "42000", "can't be set to the value of 'soon'")
	_, err = db.Exec("SET SESSION " + name + " = '1s'")
	requireCode(t, err, 1229, "HY000", "is a GLOBAL variable")
	mustExec(t, db, "SET GLOBAL "+name+" = '-5s'") // clamped
	require.Equal(t, "0s", value(t, db, "SELECT @@global."+name))
	mustExec(t, db, "SET GLOBAL "+name+" = '90s'")
	require.Zero(t, n.terminate())
	require.Equal(t, "1m30s", value(t, startNode(t, dir).db(), "SELECT @@"+name), "persisted")
}
