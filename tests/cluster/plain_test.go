package cluster

import (
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/tests/cluster/standin"
)

// sqlServer is a server as it may own TiDB's DDL.
type sqlServer struct {
	client
	status string
}

func (s sqlServer) ownsDDL() bool {
	rows := s.rows("ADMIN SHOW DDL")
	return len(rows) == 1 && rows[0]["OWNER_ID"] != "" && rows[0]["OWNER_ID"] == rows[0]["SELF_ID"]
}

// makeOwner has the others resign until a server owns TiDB's DDL.
func makeOwner(t *testing.T, wanted sqlServer, others ...sqlServer) {
	t.Helper()
	eventually(t, "it owns the DDL", func() bool {
		for _, s := range others {
			if !s.ownsDDL() {
				continue
			}
			req, err := http.NewRequest(http.MethodPost, "http://"+s.status+"/ddl/owner/resign", nil)
			require.NoError(t, err)
			req.SetBasicAuth("root", os.Getenv("MYSQL_PWD")) // fastddl nodes need a login
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		return wanted.ownsDDL()
	})
}

// plainCluster is two nodes and a plain tidb-server, which own TiDB's DDL as the test wants,
// and a table of 2000 rows.
func plainCluster(t *testing.T, tidbOwns bool) (c *standin.Cluster, first, second *node, plain *plainServer) {
	t.Helper()
	needsStandIn(t, "it has imports wait for the stand-in, and chooses who owns the DDL")
	c = startCluster(t, nil)
	first, second = startNode(t, c), startNode(t, c)
	plain = startTiDB(t, c, "test")
	ours, theirs := sqlServer{second.open(), second.Status}, sqlServer{plain.client, plain.status}
	wanted, other := ours, theirs
	if tidbOwns {
		wanted, other = theirs, ours
	}
	makeOwner(t, wanted, other, sqlServer{first.open(), first.Status})
	db := second.open()
	fill(db, "t", 2000)
	// If the ownership was still on its way when the table was made, TiDB has left the version of
	// that job behind: the next owner deletes rows of its own only.
	plain.exec("DELETE FROM mysql.tidb_mdl_info WHERE job_id NOT IN (SELECT job_id FROM mysql.tidb_ddl_job)")
	return c, first, second, plain
}

// TestTakeoverBesideTiDB: a build whose node crashes goes on at the other one, and a plain
// tidb-server is one of the cluster meanwhile, with either of them owning TiDB's DDL.
func TestTakeoverBesideTiDB(t *testing.T) {
	t.Parallel()
	for name, tidbOwns := range map[string]bool{"TiDB owns the DDL": true, "fastddl owns the DDL": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, first, second, plain := plainCluster(t, tidbOwns)
			b := second.open()
			done, goOn := stuckBuild(t, c, first.open(), "ALTER TABLE t ADD UNIQUE INDEX v (v), ADD INDEX s (s)")
			first.Kill()
			require.Error(t, await(t, done), "its connection is gone")
			awaitTakeOver(t, b, first)
			change(plain.client, b)
			first.start() // a change of the schema waits for it
			plain.exec("CREATE TABLE other (id INT PRIMARY KEY)", "ALTER TABLE other ADD COLUMN v INT")
			// Other changes of the table wait for the build.
			column := plain.later("ALTER TABLE t ADD COLUMN w INT DEFAULT 5")
			goOn()
			require.NoError(t, await(t, column))
			require.Equal(t, "synced", b.lastJob("state"))
			for _, db := range []client{b, plain.client, first.open()} {
				db.exec("ADMIN CHECK TABLE t")
				require.Len(t, db.rows("SHOW INDEX FROM t WHERE key_name IN ('v', 's')"), 2)
				require.Equal(t, "2", db.value("SELECT COUNT(*) FROM t USE INDEX (v) WHERE v > 1000000"))
			}
			eventually(t, "the last job of TiDB's is gone, with its messages to servers", func() bool {
				return b.value("SELECT (SELECT COUNT(*) FROM mysql.tidb_ddl_job) + (SELECT COUNT(*) FROM mysql.tidb_mdl_info)") == "0"
			})
			b.nothingIsLeft()
		})
	}
}

// TestTiDBHoldsAnOldSchema: an index is public nowhere as long as a plain tidb-server is
// behind, because of a transaction or because it hangs; that the node which waits for it
// crashes does not change that.
func TestTiDBHoldsAnOldSchema(t *testing.T) {
	t.Parallel()
	for name, tidbOwns := range map[string]bool{"TiDB owns the DDL": true, "fastddl owns the DDL": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, first, second, plain := plainCluster(t, tidbOwns)
			a, b := first.open(), second.open()
			behind := func(what string) {
				t.Helper()
				eventually(t, what, func() bool { return b.record() != "" && b.lastJob("wait_reason") != "" })
				require.Empty(t, b.rows("SHOW INDEX FROM t WHERE key_name = 'v'"))
			}

			// A transaction that uses the table holds up its first state.
			holder := plain.session()
			must(t, holder, "BEGIN", "SELECT * FROM t LIMIT 1")
			done := a.later("ALTER TABLE t ADD UNIQUE INDEX v (v)")
			behind("the build waits for the transaction")
			first.Kill()
			require.Error(t, await(t, done), "its connection is gone")
			awaitTakeOver(t, b, first)
			first.start()
			a = first.open()
			behind("so does the other node")
			must(t, holder, "INSERT INTO t VALUES (-1, 2000001, 'old')", "COMMIT")
			eventually(t, "it is done", func() bool { return b.record() == "" })
			plain.exec("ADMIN CHECK TABLE t")
			require.Equal(t, "-1", a.value("SELECT id FROM t USE INDEX (v) WHERE v = 2000001"))

			// A server that hangs holds up the publication.
			a.exec("ALTER TABLE t DROP INDEX v")
			done, goOn := stuckBuild(t, c, a, "ALTER TABLE t ADD UNIQUE INDEX v (v)")
			conn := plain.session()
			must(t, conn, "BEGIN", "INSERT INTO t VALUES (-2, 2000002, 'old')")
			require.NoError(t, plain.cmd.Process.Signal(syscall.SIGSTOP))
			t.Cleanup(func() { _ = plain.cmd.Process.Signal(syscall.SIGCONT) }) // it may have ended
			goOn()
			behind("the publication waits for the server")
			select {
			case err := <-done:
				require.FailNow(t, "it does not wait for a server that is behind", "%v", err)
			case <-time.After(time.Second):
			}
			require.Empty(t, b.rows("SHOW INDEX FROM t WHERE key_name = 'v'"))
			require.NoError(t, plain.cmd.Process.Signal(syscall.SIGCONT))
			must(t, conn, "INSERT INTO t VALUES (-3, 2000003, 'old')", "COMMIT")
			require.NoError(t, await(t, done))
			plain.exec("ADMIN CHECK TABLE t")
			require.Equal(t, "3", a.value("SELECT COUNT(*) FROM t USE INDEX (v) WHERE v > 2000000"))
			b.nothingIsLeft()
		})
	}
}
