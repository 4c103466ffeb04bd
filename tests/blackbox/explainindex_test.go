package blackbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user looks at what an index would cost, builds it, and is refused one that would not fit.
func TestExplainOfAnIndexBuild(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := unprivileged(t, n, "app")
	mustExec(t, db, "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, k INT, c VARCHAR(100))")
	mustExec(t, db, "INSERT INTO t (k, c) VALUES "+strings.TrimSuffix(strings.Repeat("(crc32(uuid()) % 1000000, uuid()),", 5000), ","))
	of := func(rows [][]string, item string) []string {
		for _, r := range rows {
			if r[0] == item {
				return r
			}
		}
		t.Fatalf("no %s in\n%s", item, tableText(rows))
		return nil
	}
	rows := queryAll(t, db, "EXPLAIN CREATE INDEX i ON t (c)")
	require.Equal(t, []string{"rows", "", "5000"}, of(rows, "rows")[:3])
	require.Equal(t, []string{"verdict", "", "fits"}, of(rows, "verdict")[:3])
	require.Equal(t, rows[0][:3], queryAll(t, db, "EXPLAIN ALTER TABLE t ADD INDEX i (c)")[0][:3])

	prepared, err := db.Prepare("EXPLAIN CREATE INDEX i ON t (c)")
	require.NoError(t, err)
	defer prepared.Close()
	got, err := prepared.Query()
	require.NoError(t, err)
	columns, err := got.Columns()
	require.NoError(t, err)
	require.Equal(t, []string{"item", "name", "estimate", "info"}, columns)
	require.NoError(t, got.Close())

	analyzed := queryAll(t, db, "EXPLAIN ANALYZE CREATE INDEX i ON t (c)")
	require.Equal(t, []string{"rows", "", "5000", "5000"}, of(analyzed, "rows")[:4])
	require.NotEmpty(t, of(analyzed, "seconds")[3])
	checkTable(t, n.db(), "app.t")
	require.Contains(t, value(t, db, "SELECT GROUP_CONCAT(index_name) FROM information_schema.statistics WHERE table_name = 't'"), "i")

	mustExec(t, n.db(), "SET GLOBAL fastddl_ddl_memory_quota = '64KiB'")
	mustExec(t, n.db(), "SET GLOBAL fastddl_ddl_preflight = 'enforce'")
	strict := n.openAs("app", "secret", "app")
	_, err = strict.Exec("ALTER TABLE t ADD INDEX j (k), ADD INDEX j2 (k, c), ADD INDEX j3 (c, k)")
	requireCode(t, err, 8256, "HY000", "memory")
	mustExec(t, n.db(), "SET GLOBAL fastddl_ddl_memory_quota = DEFAULT")
	mustExec(t, strict, "ALTER TABLE t ADD INDEX j (k)")
}
