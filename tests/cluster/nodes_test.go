package cluster

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// owner returns which of the nodes runs the DDL jobs, and the others. On a live cluster
// that may be yet another server: then it is any of them.
func owner(t *testing.T, nodes ...*node) (owner *node, others []*node) {
	if live != "" {
		return nodes[0], nodes[1:]
	}
	t.Helper()
	eventually(t, "a node owns the DDL", func() bool {
		owner, others = nil, nil
		for _, n := range nodes {
			ddl := n.open().rows("ADMIN SHOW DDL")
			if len(ddl) == 1 && ddl[0]["OWNER_ID"] != "" && ddl[0]["OWNER_ID"] == ddl[0]["SELF_ID"] {
				owner = n
			} else {
				others = append(others, n)
			}
		}
		return owner != nil
	})
	return owner, others
}

// lockWaits counts the sessions that wait for locks in this database.
const lockWaits = `SELECT COUNT(*) FROM information_schema.data_lock_waits WHERE key_info LIKE CONCAT('%"', DATABASE(), '"%')`

// TestTwoNodes: two nodes are one database.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	c := anyCluster(t)
	first, others := owner(t, startNode(t, c), startNode(t, c))
	second := others[0]
	a, b := first.open(), second.open()

	// DDL from either is seen by both, at once.
	a.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	b.exec("INSERT INTO t VALUES (1, 1), (2, 2)", "ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
	require.Equal(t, "14", a.value("SELECT SUM(w) FROM t"))
	b.exec("ALTER TABLE t ADD INDEX v (v)")
	a.exec("INSERT INTO t VALUES (3, 3, 3)", "ADMIN CHECK TABLE t")
	require.Equal(t, "3", b.value("SELECT id FROM t USE INDEX (v) WHERE v = 3"))

	// Each knows of the other.
	for _, db := range []client{a, b} {
		require.Len(t, db.rows("SELECT * FROM information_schema.cluster_info WHERE instance IN (?, ?)", first.Addr, second.Addr), 2)
		require.Len(t, db.rows("SELECT DISTINCT instance FROM information_schema.cluster_processlist WHERE instance IN (?, ?)",
			first.Status, second.Status), 2)
		if live == "" { // where another server may not answer
			require.Len(t, db.rows("SELECT * FROM information_schema.cluster_info WHERE type = 'tidb'"), 2)
			require.Empty(t, db.rows("SHOW WARNINGS"))
		}
	}

	// Writes of both meet: a lock of one is waited for by the other.
	one := a.session()
	must(t, one, "BEGIN PESSIMISTIC", "UPDATE t SET v = v + 10 WHERE id = 1")
	update := b.later("UPDATE t SET v = v + 100 WHERE id = 1")
	eventually(t, "the other waits", func() bool { return b.value(lockWaits) == "1" })
	must(t, one, "COMMIT")
	require.NoError(t, await(t, update))
	require.Equal(t, "111", a.value("SELECT v FROM t WHERE id = 1"))
	a.exec("ADMIN CHECK TABLE t")

	t.Run("metadata lock", func(t *testing.T) { testMetadataLock(t, a.in(t), b.in(t)) })
	t.Run("kill", func(t *testing.T) { testKill(t, a.in(t), b.in(t)) })
	t.Run("variables", func(t *testing.T) {
		b := b.in(t)
		first.setGlobal("tidb_ddl_reorg_batch_size", "123")
		eventually(t, "it is known everywhere", func() bool { return b.value("SELECT @@global.tidb_ddl_reorg_batch_size") == "123" })
	})
	t.Run("auto increment", func(t *testing.T) {
		if namesKeyspace(first.path) {
			t.Skip("TiDB looks elsewhere in the etcd of PD for who has the values than where that is written")
		}
		a, b := a.in(t), b.in(t)
		// Values come from one node, over the network, so that they follow each other.
		// Unless the owner of the values has changed meanwhile: its lease is three seconds here.
		eventually(t, "values follow each other", func() bool {
			a.exec("DROP TABLE IF EXISTS ids", "CREATE TABLE ids (id INT PRIMARY KEY AUTO_INCREMENT, v INT) AUTO_ID_CACHE 1")
			for range 3 {
				a.exec("INSERT INTO ids (v) VALUES (1)")
				b.exec("INSERT INTO ids (v) VALUES (2)")
			}
			return b.value("SELECT MAX(id) FROM ids") == "6"
		})
	})
}

// testMetadataLock: a change of a table waits for transactions of all nodes that use it.
func testMetadataLock(t *testing.T, a, b client) {
	a.exec("DROP TABLE IF EXISTS m", "CREATE TABLE m (id INT PRIMARY KEY, v INT)", "INSERT INTO m VALUES (1, 1)")
	for _, nodes := range [][2]client{{a, b}, {b, a}} {
		user, changer := nodes[0], nodes[1]
		holder := user.session()
		must(t, holder, "BEGIN", "SELECT * FROM m")
		change := changer.later("ALTER TABLE m ADD INDEX v (v)")
		eventually(t, "the change waits for the transaction", func() bool {
			return len(user.rows("SELECT * FROM mysql.tidb_mdl_view WHERE db_name = DATABASE()")) > 0
		})
		select {
		case err := <-change:
			require.FailNow(t, "the change did not wait", "%v", err)
		default:
		}
		must(t, holder, "UPDATE m SET v = v + 1", "COMMIT")
		require.NoError(t, await(t, change))
		changer.exec("ADMIN CHECK TABLE m", "ALTER TABLE m DROP INDEX v")
	}
}

// testKill: KILL reaches statements of the other node.
func testKill(t *testing.T, a, b client) {
	victim := a.session()
	var id string
	require.NoError(t, victim.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	slept := make(chan error, 1)
	go func() {
		_, err := victim.ExecContext(t.Context(), "SELECT SLEEP(600)")
		slept <- err
	}()
	eventually(t, "it runs", func() bool {
		return len(b.rows("SELECT * FROM information_schema.cluster_processlist WHERE id = ? AND info LIKE 'SELECT SLEEP%'", id)) == 1
	})
	b.exec("KILL " + id)
	err := await(t, slept)
	require.Error(t, err)
	require.False(t, strings.Contains(err.Error(), "context"), "it was killed: %v", err)
}
