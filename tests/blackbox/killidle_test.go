package blackbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKillOfAnIdleTransaction: it is undone, its connection ends, and the server goes on.
// TiDB's own server panics (pingcap/tidb#63956).
func TestKillOfAnIdleTransaction(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	mustExec(t, db, "CREATE TABLE t (id INT)")
	for _, kill := range []string{"KILL QUERY ", "KILL "} {
		conn, err := n.open("test").Conn(t.Context())
		require.NoError(t, err)
		var id string
		require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		for _, query := range []string{"BEGIN", "INSERT INTO t VALUES (1)"} {
			_, err := conn.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		for range 6 { // the more it has written, the more memory there is to give back
			_, err := conn.ExecContext(t.Context(), "INSERT INTO t SELECT * FROM t")
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { // a KILL QUERY between two statements kills nothing
			mustExec(t, db, kill+id)
			return value(t, db, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?", id) == "0"
		}, startTimeout, pollInterval, "the session ends")
		require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM t"))
		_ = conn.Close()
	}
	mustExec(t, db, "ALTER TABLE t ADD COLUMN c INT") // nothing of the transactions holds it up
	require.Zero(t, n.terminate())
}
