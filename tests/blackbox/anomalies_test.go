package blackbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// mode is how the sessions of a test run their transactions.
type mode struct {
	name      string
	begin     string
	isolation string
}

var (
	optimistic    = mode{"optimistic", "BEGIN OPTIMISTIC", "REPEATABLE READ"}
	pessimistic   = mode{"pessimistic", "BEGIN PESSIMISTIC", "REPEATABLE READ"}
	readCommitted = mode{"read committed", "BEGIN PESSIMISTIC", "READ COMMITTED"}

	// snapshotModes read as of the beginning of the transaction.
	snapshotModes = []mode{optimistic, pessimistic}
	// lockingModes lock what they write when they write it, and write what is newest.
	lockingModes = []mode{pessimistic, readCommitted}
	allModes     = []mode{optimistic, pessimistic, readCommitted}
)

// isolation is a test with some sessions on a table of two rows, (1, 10) and (2, 20).
type isolation struct {
	t *testing.T
	n *node
	mode
	a, b, c *terminal
}

// begin begins a transaction, and takes its snapshot.
func (s *isolation) begin(sessions ...*terminal) {
	s.t.Helper()
	for _, c := range sessions {
		c.exec(s.mode.begin)
		c.value("SELECT COUNT(*) FROM account")
	}
}

// read is the table as a session sees it.
func (s *isolation) read(c *terminal) string {
	s.t.Helper()
	return c.value("SELECT GROUP_CONCAT(id, '=', v ORDER BY id) FROM account")
}

// blocked starts a statement that has to wait for a lock.
func (s *isolation) blocked(c *terminal, query string) <-chan error {
	s.t.Helper()
	done := c.start(query)
	db := s.n.db()
	require.Eventually(s.t, func() bool {
		return value(s.t, db, "SELECT COUNT(*) FROM information_schema.DATA_LOCK_WAITS") != "0"
	}, startTimeout, pollInterval, "%s does not wait", query)
	requireWaits(s.t, done)
	return done
}

// conflicts checks that a commit fails because of another one.
func (s *isolation) conflicts(c *terminal) {
	s.t.Helper()
	err := c.try("COMMIT")
	var e *mysql.MySQLError
	require.True(s.t, errors.As(err, &e) && e.Number == 9007, "a write conflict was expected: %v", err)
}

// anomalies are tests with the names that Adya's theory and the ANSI standard have for what must not happen.
var anomalies = []struct {
	name  string
	modes []mode
	run   func(s *isolation)
}{
	{"G0 dirty write", lockingModes, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = 11 WHERE id = 1")
		waits := s.blocked(s.b, "UPDATE account SET v = 12 WHERE id = 1")
		s.a.exec("UPDATE account SET v = 21 WHERE id = 2")
		s.a.exec("COMMIT")
		require.NoError(s.t, requireEnds(s.t, waits))
		require.Equal(s.t, "1=11,2=21", s.read(s.c))
		s.b.exec("UPDATE account SET v = 22 WHERE id = 2")
		s.b.exec("COMMIT")
		require.Equal(s.t, "1=12,2=22", s.read(s.c))
	}},
	{"G0 dirty write", []mode{optimistic}, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = 11 WHERE id = 1")
		s.b.exec("UPDATE account SET v = 12 WHERE id = 1")
		s.b.exec("UPDATE account SET v = 22 WHERE id = 2")
		s.a.exec("UPDATE account SET v = 21 WHERE id = 2")
		s.a.exec("COMMIT")
		s.conflicts(s.b)
		require.Equal(s.t, "1=11,2=21", s.read(s.c))
	}},
	{"G1a aborted read", allModes, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = 101 WHERE id = 1")
		s.a.exec("INSERT INTO account VALUES (3, 30)")
		require.Equal(s.t, "1=10,2=20", s.read(s.b))
		s.a.exec("ROLLBACK")
		require.Equal(s.t, "1=10,2=20", s.read(s.b))
		s.b.exec("COMMIT")
	}},
	{"G1a read of what a savepoint takes back", allModes, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("SAVEPOINT s")
		s.a.exec("UPDATE account SET v = 101 WHERE id = 1")
		s.a.exec("ROLLBACK TO SAVEPOINT s")
		s.a.exec("UPDATE account SET v = 21 WHERE id = 2")
		s.a.exec("COMMIT")
		require.Equal(s.t, "1=10,2=21", s.read(s.c))
	}},
	{"G1b intermediate read", allModes, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = 101 WHERE id = 1")
		require.Equal(s.t, "1=10,2=20", s.read(s.b))
		s.a.exec("UPDATE account SET v = 11 WHERE id = 1")
		s.a.exec("COMMIT")
		want := "1=10,2=20"
		if s.mode == readCommitted {
			want = "1=11,2=20"
		}
		require.Equal(s.t, want, s.read(s.b))
		s.b.exec("COMMIT")
		require.Equal(s.t, "1=11,2=20", s.read(s.b))
	}},
	{"G1c circular information flow", allModes, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = 11 WHERE id = 1")
		s.b.exec("UPDATE account SET v = 22 WHERE id = 2")
		require.Equal(s.t, "20", s.a.value("SELECT v FROM account WHERE id = 2"))
		require.Equal(s.t, "10", s.b.value("SELECT v FROM account WHERE id = 1"))
		s.a.exec("COMMIT")
		s.b.exec("COMMIT")
		require.Equal(s.t, "1=11,2=22", s.read(s.c))
	}},
	{"a transaction that was observed does not vanish", lockingModes, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = 11 WHERE id = 1")
		s.a.exec("UPDATE account SET v = 19 WHERE id = 2")
		waits := s.blocked(s.b, "UPDATE account SET v = 12 WHERE id = 1")
		s.a.exec("COMMIT")
		require.NoError(s.t, requireEnds(s.t, waits))
		s.c.exec(s.mode.begin)
		require.Equal(s.t, "1=11,2=19", s.read(s.c))
		s.b.exec("UPDATE account SET v = 18 WHERE id = 2")
		require.Equal(s.t, "1=11,2=19", s.read(s.c))
		s.b.exec("COMMIT")
		want := "1=11,2=19"
		if s.mode == readCommitted {
			want = "1=12,2=18"
		}
		require.Equal(s.t, want, s.read(s.c))
		s.c.exec("COMMIT")
	}},
	{"P2 non-repeatable read", snapshotModes, func(s *isolation) {
		s.begin(s.a)
		s.b.exec("UPDATE account SET v = v + 1")
		require.Equal(s.t, "1=10,2=20", s.read(s.a))
		require.Equal(s.t, "10", s.a.value("SELECT v FROM account WHERE id = 1"))
		s.a.exec("COMMIT")
		require.Equal(s.t, "1=11,2=21", s.read(s.a))
	}},
	{"P3 phantom", snapshotModes, func(s *isolation) {
		s.begin(s.a)
		s.b.exec("INSERT INTO account VALUES (3, 30)")
		s.c.exec("DELETE FROM account WHERE id = 1")
		require.Equal(s.t, "1=10,2=20", s.read(s.a))
		require.Equal(s.t, "0", s.a.value("SELECT COUNT(*) FROM account WHERE v = 30"))
		require.Equal(s.t, "1", s.a.value("SELECT COUNT(*) FROM account USE INDEX (v) WHERE v = 10"))
		require.Equal(s.t, "0", s.a.value("SELECT COUNT(*) FROM account USE INDEX (v) WHERE v = 30"))
		s.a.exec("COMMIT")
	}},
	{"each statement of read committed is one snapshot, and the newest", []mode{readCommitted}, func(s *isolation) {
		s.begin(s.a)
		for i := range 5 {
			s.b.exec("BEGIN")
			s.b.exec("UPDATE account SET v = v + 1 WHERE id = 1")
			s.b.exec("UPDATE account SET v = v + 1 WHERE id = 2")
			require.Equal(s.t, fmt.Sprintf("1=%d,2=%d", 10+i, 20+i), s.read(s.a))
			s.b.exec("COMMIT")
			require.Equal(s.t, fmt.Sprintf("1=%d,2=%d", 11+i, 21+i), s.read(s.a))
			require.Equal(s.t, fmt.Sprint(11+i), s.a.value("SELECT v FROM account WHERE id = 1"))
		}
		s.a.exec("COMMIT")
	}},
	{"P4 lost update", []mode{optimistic}, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = v + 1 WHERE id = 1")
		s.b.exec("UPDATE account SET v = v + 1 WHERE id = 1")
		s.a.exec("COMMIT")
		s.conflicts(s.b)
		require.Equal(s.t, "1=11,2=20", s.read(s.c))
	}},
	{"P4 lost update", lockingModes, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = v + 1 WHERE id = 1")
		waits := s.blocked(s.b, "UPDATE account SET v = v + 1 WHERE id = 1")
		s.a.exec("COMMIT")
		require.NoError(s.t, requireEnds(s.t, waits))
		s.b.exec("COMMIT")
		require.Equal(s.t, "1=12,2=20", s.read(s.c))
	}},
	{"P4 lost update of what was read for update", lockingModes, func(s *isolation) {
		s.begin(s.a, s.b)
		require.Equal(s.t, "10", s.a.value("SELECT v FROM account WHERE id = 1 FOR UPDATE"))
		waits := s.blocked(s.b, "SELECT v FROM account WHERE id = 1 FOR UPDATE")
		s.a.exec("UPDATE account SET v = 11 WHERE id = 1")
		s.a.exec("COMMIT")
		require.NoError(s.t, requireEnds(s.t, waits))
		require.Equal(s.t, "11", s.b.value("SELECT v FROM account WHERE id = 1 FOR UPDATE"))
		s.b.exec("UPDATE account SET v = 16 WHERE id = 1")
		s.b.exec("COMMIT")
		require.Equal(s.t, "1=16,2=20", s.read(s.c))
	}},
	{"G-single read skew", snapshotModes, func(s *isolation) {
		s.a.exec(s.mode.begin)
		require.Equal(s.t, "10", s.a.value("SELECT v FROM account WHERE id = 1"))
		s.b.exec("BEGIN")
		s.b.exec("UPDATE account SET v = 12 WHERE id = 1")
		s.b.exec("UPDATE account SET v = 18 WHERE id = 2")
		s.b.exec("COMMIT")
		require.Equal(s.t, "20", s.a.value("SELECT v FROM account WHERE id = 2"))
		require.Equal(s.t, "1=10,2=20", s.read(s.a))
		s.a.exec("COMMIT")
	}},
	{"G-single read skew before a write", []mode{optimistic}, func(s *isolation) {
		s.begin(s.a)
		s.b.exec("UPDATE account SET v = v + 2")
		s.a.exec("DELETE FROM account WHERE v = 20") // it is 22 by now
		s.conflicts(s.a)
		require.Equal(s.t, "1=12,2=22", s.read(s.c))
	}},
	{"G-single read skew before a write", lockingModes, func(s *isolation) {
		s.begin(s.a)
		s.b.exec("UPDATE account SET v = v + 2")
		s.a.exec("DELETE FROM account WHERE v = 20") // it is 22 by now
		s.a.exec("COMMIT")
		require.Equal(s.t, "1=12,2=22", s.read(s.c))
	}},
	{"long fork", snapshotModes, func(s *isolation) {
		s.begin(s.a)
		s.n.terminal().exec("UPDATE account SET v = 11 WHERE id = 1")
		s.begin(s.b)
		s.n.terminal().exec("UPDATE account SET v = 21 WHERE id = 2")
		s.begin(s.c)
		for range 2 {
			require.Equal(s.t, "1=10,2=20", s.read(s.a))
			require.Equal(s.t, "1=11,2=20", s.read(s.b), "of two commits the first is seen first, by everybody")
			require.Equal(s.t, "1=11,2=21", s.read(s.c))
		}
	}},
	{"write skew is what snapshot isolation allows", snapshotModes, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = 0 WHERE id = 1 AND (SELECT * FROM (SELECT SUM(v) FROM account) x) = 30")
		s.b.exec("UPDATE account SET v = 0 WHERE id = 2 AND (SELECT * FROM (SELECT SUM(v) FROM account) x) = 30")
		s.a.exec("COMMIT")
		s.b.exec("COMMIT")
		require.Equal(s.t, "1=0,2=0", s.read(s.c))
	}},
	{"write skew in spite of FOR UPDATE", lockingModes, func(s *isolation) {
		s.begin(s.a, s.b)
		require.Equal(s.t, "20", s.a.value("SELECT v FROM account WHERE id = 2 FOR UPDATE"))
		s.a.exec("UPDATE account SET v = 0 WHERE id = 1")
		waits := s.blocked(s.b, "SELECT v FROM account WHERE id = 1 FOR UPDATE")
		s.a.exec("COMMIT")
		require.NoError(s.t, requireEnds(s.t, waits))
		require.Equal(s.t, "0", s.b.value("SELECT v FROM account WHERE id = 1 FOR UPDATE"), "it reads what is newest")
		s.b.exec("COMMIT")
	}},
	{"write skew in spite of FOR UPDATE", []mode{optimistic}, func(s *isolation) {
		s.begin(s.a, s.b)
		require.Equal(s.t, "20", s.a.value("SELECT v FROM account WHERE id = 2 FOR UPDATE"))
		s.a.exec("UPDATE account SET v = 0 WHERE id = 1")
		require.Equal(s.t, "10", s.b.value("SELECT v FROM account WHERE id = 1 FOR UPDATE"))
		s.b.exec("UPDATE account SET v = 0 WHERE id = 2")
		s.a.exec("COMMIT")
		s.conflicts(s.b)
		require.Equal(s.t, "1=0,2=20", s.read(s.c))
	}},
	{"an optimistic transaction does not overwrite what was only locked", []mode{optimistic}, func(s *isolation) {
		s.begin(s.a, s.b)
		s.a.exec("UPDATE account SET v = 21 WHERE id = 2")
		s.b.exec("SELECT v FROM account WHERE id = 2 FOR UPDATE")
		s.b.exec("UPDATE account SET v = 11 WHERE id = 1")
		s.b.exec("COMMIT")
		s.conflicts(s.a)
		require.Equal(s.t, "1=11,2=20", s.read(s.c))
	}},
	{"a transaction reads its own writes", allModes, func(s *isolation) {
		s.begin(s.a)
		s.a.exec("UPDATE account SET v = 11 WHERE id = 1")
		s.a.exec("INSERT INTO account VALUES (3, 30)")
		s.a.exec("DELETE FROM account WHERE id = 2")
		require.Equal(s.t, "1=11,3=30", s.read(s.a))
		require.Equal(s.t, "0", s.a.value("SELECT COUNT(*) FROM account WHERE id = 2"))
		require.Equal(s.t, "3", s.a.value("SELECT id FROM account USE INDEX (v) WHERE v = 30"))
		require.Equal(s.t, "1=10,2=20", s.read(s.b))
		s.a.exec("COMMIT")
		require.Equal(s.t, "1=11,3=30", s.read(s.a))
	}},
	{"what was acknowledged is seen by everybody", allModes, func(s *isolation) {
		for i := range 50 {
			writer, reader := s.a, s.b
			if i%2 == 0 {
				writer, reader = s.b, s.a
			}
			s.begin(writer)
			writer.exec("UPDATE account SET v = v + 1")
			writer.exec("COMMIT")
			want := fmt.Sprint(11 + i)
			require.Equal(s.t, want, reader.value("SELECT v FROM account WHERE id = 1"), "read by its key")
			require.Equal(s.t, fmt.Sprintf("1=%d,2=%d", 11+i, 21+i), s.read(reader))
			require.Equal(s.t, "1", s.c.value("SELECT COUNT(*) FROM account USE INDEX (v) WHERE v = "+want))
		}
	}},
	{"commits are ordered as they are acknowledged", allModes, func(s *isolation) {
		last := uint64(0)
		for i := range 20 {
			writer := []*terminal{s.a, s.b, s.c}[i%3]
			s.begin(writer)
			writer.exec("UPDATE account SET v = v + 1 WHERE id = 1")
			writer.exec("COMMIT")
			var info struct {
				Start  uint64 `json:"start_ts"`
				Commit uint64 `json:"commit_ts"`
			}
			require.NoError(s.t, json.Unmarshal([]byte(writer.value("SELECT @@tidb_last_txn_info")), &info))
			require.Greater(s.t, info.Start, last, "it began after the end of the one before")
			require.Greater(s.t, info.Commit, info.Start)
			last = info.Commit
		}
	}},
}

// TestAnomalies runs each anomaly that TiDB promises to exclude with the interleaving that would show it, for all that
// can be told apart: optimistic and pessimistic transactions, READ COMMITTED, commits in one phase and in two.
func TestAnomalies(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, t.TempDir())
	for _, phases := range []string{"ON", "OFF"} {
		for _, a := range anomalies {
			for _, m := range a.modes {
				name := fmt.Sprintf("%s/%s, one phase %s", a.name, m.name, phases)
				t.Run(name, func(t *testing.T) {
					db := n.db()
					mustExec(t, db, "DROP TABLE IF EXISTS account")
					mustExec(t, db, "CREATE TABLE account (id INT PRIMARY KEY, v INT, KEY v (v))")
					mustExec(t, db, "INSERT INTO account VALUES (1, 10), (2, 20)")
					s := &isolation{t: t, n: &node{Node: n.Node, t: t, addr: n.addr, status: n.status}, mode: m}
					s.a, s.b, s.c = s.session(phases), s.session(phases), s.session(phases)
					a.run(s)
					for _, c := range []*terminal{s.a, s.b, s.c} {
						c.exec("ROLLBACK")
					}
					mustExec(t, db, "ADMIN CHECK TABLE account")
				})
			}
		}
	}
}

// session opens a session of the test's kind. When the test ends, and also if it fails halfway, its transaction does.
func (s *isolation) session(phases string) *terminal {
	c := s.n.terminal()
	s.t.Cleanup(func() { _ = c.tcp.Close() })
	c.exec("SET SESSION TRANSACTION ISOLATION LEVEL " + s.mode.isolation)
	c.exec("SET tidb_enable_1pc = " + phases + ", tidb_enable_async_commit = " + phases)
	return c
}

// TestReadersNeverGoBack: while a counter is raised, no session sees it fall, whichever way it reads.
func TestReadersNeverGoBack(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	mustExec(t, db, "CREATE TABLE counter (id INT PRIMARY KEY, v INT, KEY v (v))")
	mustExec(t, db, "INSERT INTO counter VALUES (1, 0), (2, 0)")
	const rounds = 200
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, query := range []string{
		"SELECT v FROM counter WHERE id = 1", "SELECT MIN(v) FROM counter", "SELECT v FROM counter USE INDEX (v) WHERE v >= 0 ORDER BY v LIMIT 1",
	} {
		c := n.terminal()
		readers.Go(func() {
			for last := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				v, err := c.tryValue(query)
				now := 0
				if err == nil {
					_, err = fmt.Sscan(v, &now)
				}
				if err != nil || now < last {
					t.Errorf("%s: %d after %d: %v", query, now, last, err)
					return
				}
				last = now
			}
		})
	}
	for range rounds {
		mustExec(t, db, "UPDATE counter SET v = v + 1")
	}
	close(done)
	readers.Wait()
	require.Equal(t, fmt.Sprint(rounds), value(t, db, "SELECT MIN(v) FROM counter"))
}
