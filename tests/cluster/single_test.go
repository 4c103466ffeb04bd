package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/tests/cluster/standin"
)

// TestSingleNode: what an application does on one node works as on any TiDB, and a
// restart and a crash lose nothing.
func TestSingleNode(t *testing.T) {
	t.Parallel()
	c := anyCluster(t)
	n := startNode(t, c)
	db := n.open()
	if s, ok := c.(*standin.Cluster); ok {
		require.Equal(t, s.StoreAddr(), db.value("SELECT instance FROM information_schema.cluster_info WHERE type = 'tikv'"))
	}
	db.exec(
		"CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(20))",
		"INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')",
		"UPDATE t SET v = v + 1 WHERE id > 1",
		"DELETE FROM t WHERE id = 3",
	)
	conn := db.session()
	must(t, conn, "BEGIN PESSIMISTIC", "SELECT * FROM t WHERE id = 1 FOR UPDATE", "UPDATE t SET v = 11 WHERE id = 1", "COMMIT")
	must(t, conn, "BEGIN OPTIMISTIC", "UPDATE t SET v = 0", "ROLLBACK")
	require.Equal(t, "32", db.value("SELECT SUM(v) FROM t"))

	db.exec("ALTER TABLE t ADD INDEX v (v)")
	n.setGlobal("tidb_enable_dist_task", "OFF")
	n.setGlobal("tidb_ddl_enable_fast_reorg", "OFF")
	db.exec("ALTER TABLE t ADD UNIQUE INDEX s (s)")
	require.Equal(t, "2", db.value("SELECT id FROM t USE INDEX (v) WHERE v = 21"))
	require.Equal(t, "1", db.value("SELECT id FROM t USE INDEX (s) WHERE s = 'a'"))
	require.ErrorContains(t, db.try("INSERT INTO t VALUES (4, 40, 'a')"), "Duplicate entry 'a' for key 't.s'")
	db.exec("ADMIN CHECK TABLE t")

	require.Zero(t, n.Terminate())
	n.start()
	db = n.open()
	require.Equal(t, "32", db.value("SELECT SUM(v) FROM t"))

	// A crash leaves the locks of a transaction. Reads pass them by, writes wait until they
	// have not been renewed for their time.
	conn = db.session()
	must(t, conn, "BEGIN", "UPDATE t SET v = 1000")
	n.Kill()
	n.start()
	db = n.open()
	require.Equal(t, "32", db.value("SELECT SUM(v) FROM t"))
	db.exec("UPDATE t SET v = v + 1", "ADMIN CHECK TABLE t")
	require.Equal(t, "34", db.value("SELECT SUM(v) FROM t"))
}

// imported is how many files a stand-in has imported; a live cluster does not show it.
func imported(c cluster) int64 {
	if s, ok := c.(*standin.Cluster); ok {
		return int64(s.Imports().Imported())
	}
	return 0
}

// requireImports checks that files have been imported since there were before.
func requireImports(t *testing.T, c cluster, before int64) {
	t.Helper()
	if live == "" {
		require.Greater(t, imported(c), before)
	}
}

// TestImport: TiDB's own way to build an index, by files that it imports, over rows of
// several regions.
func TestImport(t *testing.T) {
	t.Parallel()
	needsImport(t)
	c := anyCluster(t)
	n := startNode(t, c)
	db := n.open()
	db.exec("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
		"INSERT INTO t (v) WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s",
		"INSERT INTO t (v) SELECT v + 1000 FROM t", "INSERT INTO t (v) SELECT v + 2000 FROM t",
		"SPLIT TABLE t BETWEEN (0) AND (8000) REGIONS 5")
	require.GreaterOrEqual(t, len(db.rows("SHOW TABLE t REGIONS")), 5)
	before := imported(c)
	db.exec("ALTER TABLE t ADD INDEX v (v), ADD UNIQUE INDEX u (v)", "ADMIN CHECK TABLE t", "ANALYZE TABLE t")
	requireImports(t, c, before)
	require.Equal(t, "4000", db.value("SELECT COUNT(*) FROM t USE INDEX (v) WHERE v > 0"))
	require.Equal(t, "4000", db.value("SELECT COUNT(*) FROM t USE INDEX (u) WHERE v > 0"))

	// A duplicate is found, and nothing of the index stays.
	db.exec("ALTER TABLE t DROP INDEX u", "UPDATE t SET v = 1 WHERE v = 3000")
	require.ErrorContains(t, db.try("ALTER TABLE t ADD UNIQUE INDEX u (v)"), "Duplicate entry '1' for key 't.u'")
	require.Empty(t, db.rows("SHOW INDEX FROM t WHERE key_name = 'u'"))
	db.exec("ADMIN CHECK TABLE t")
}
