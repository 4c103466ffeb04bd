package blackbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// A table gets a primary key while it is in use: NULLs are refused from the
// first, the server is killed in the middle, and the key is there afterwards.
func TestAddPrimaryKeyOverAKill(t *testing.T) {
	randtest.SkipShort(t)
	const rows = 20_000
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	mustExec(t, db, "CREATE TABLE k (a INT, b VARCHAR(30), c INT)")
	for from := 0; from < rows; from += 1000 {
		var values []string
		for i := from; i < from+1000; i++ {
			values = append(values, fmt.Sprintf("(%d,'row %d',%d)", i, i, i%5))
		}
		mustExec(t, db, "INSERT INTO k VALUES "+strings.Join(values, ","))
	}
	mustExec(t, db, "INSERT INTO k VALUES (7, NULL, 0)")
	_, err := db.Exec("ALTER TABLE k ADD PRIMARY KEY (b)")
	requireCode(t, err, 1138, "22004", "Invalid use of NULL value")
	_, err = db.Exec("ALTER TABLE k ADD PRIMARY KEY (a)")
	requireCode(t, err, 1062, "23000", "Duplicate entry '7' for key 'k.PRIMARY'")
	mustExec(t, db, "DELETE FROM k WHERE b IS NULL")

	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 65536")
	go func() { _, _ = db.Exec("ALTER TABLE k ADD PRIMARY KEY (b, a)") }()
	runningJob(t, db)
	_, err = db.Exec("INSERT INTO k VALUES (1, NULL, 1)")
	requireCode(t, err, 1048, "23000", "Column 'b' cannot be null")
	mustExec(t, db, "INSERT INTO k VALUES (1, 'new', 1)")
	n.kill()

	db = startNode(t, dir).db()
	_, err = db.Exec("INSERT INTO k VALUES (NULL, 'x', 1)")
	requireCode(t, err, 1048, "23000", "Column 'a' cannot be null")
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	waitForJobs(t, db)
	require.Equal(t, []string{"PRIMARY"}, indexNames(t, db, "k"))
	mustExec(t, db, "ADMIN CHECK TABLE k")
	require.Contains(t, value(t, db, "SELECT COLUMN_KEY FROM information_schema.COLUMNS WHERE TABLE_NAME = 'k' AND COLUMN_NAME = 'a'"), "PRI")
	_, err = db.Exec("INSERT INTO k VALUES (1, 'new', 2)")
	requireCode(t, err, 1062, "23000", "Duplicate entry 'new-1' for key 'k.PRIMARY'")
	require.Equal(t, fmt.Sprint(rows+1), value(t, db, "SELECT COUNT(*) FROM k"))
	mustExec(t, db, "ALTER TABLE k DROP PRIMARY KEY")
	mustExec(t, db, "ALTER TABLE k ADD PRIMARY KEY (b)")
	require.Equal(t, "3", value(t, db, "SELECT c FROM k WHERE b = 'row 9998'"))
	mustExec(t, db, "ADMIN CHECK TABLE k")
}
