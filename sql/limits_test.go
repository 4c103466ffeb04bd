package sql_test

import (
	"testing"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/stretchr/testify/require"

	"fastddl/kv/embedded/txn"
)

// TestLimitsOfTransactions: a statement that locks more rows than there is memory for fails, by MySQL's number, and its
// transaction goes on; one that writes more than the store takes fails by TiDB's.
func TestLimitsOfTransactions(t *testing.T) {
	e := openLimited(t, t.TempDir(), txn.Options{LockMemory: 1 << 20, TxnSizeLimit: 1 << 20})
	t.Cleanup(e.close)
	c, other := e.client(), e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, s LONGTEXT)")
	for i := range 8 {
		c.run("INSERT INTO t (id) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n + %d FROM s", 1000*i)
	}

	c.run("BEGIN")
	c.run("SELECT id FROM t WHERE id <= 300 FOR UPDATE")
	c.fails(errno.ErrLockTableFull, "SELECT id FROM t FOR UPDATE")
	c.run("UPDATE t SET v = 1 WHERE id = 1")
	other.run("UPDATE t SET v = 2 WHERE id = 5000") // what the statement had locked until it failed is free
	c.run("COMMIT")
	require.Equal(t, []string{"1 1", "5000 2"}, c.run("SELECT id, v FROM t WHERE v > 0 ORDER BY id"))

	c.run("BEGIN")
	for id := range 3 {
		c.run("INSERT INTO t VALUES (%d, 3, REPEAT('x', 500000))", 10001+id)
	}
	c.fails(errno.ErrTxnTooLarge, "COMMIT")
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t WHERE v = 3"))
}
