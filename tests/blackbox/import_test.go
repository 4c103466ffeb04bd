package blackbox

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// IMPORT INTO fills a table from files under secure-file-priv. A detached one continues after kill -9 at any moment: the rows are all there,
// or none.
func TestImportInto(t *testing.T) {
	files, dir := t.TempDir(), t.TempDir()
	var text strings.Builder
	const rows = 20_000
	for i := range rows {
		fmt.Fprintf(&text, "%d,%d,\"row %d\"\n", i, i*7919%rows, i)
	}
	path := filepath.Join(files, "rows.csv")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(files, "bad.csv"), []byte("1,1,a\n2,x,b\n"), 0o600))
	node := startNode(t, dir, "--secure-file-priv", files)
	db := node.db()
	mustExec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, k INT, s VARCHAR(40), KEY k (k), UNIQUE KEY s (s))")
	_, err := db.Exec("IMPORT INTO t FROM '" + filepath.Join(files, "bad.csv") + "'")
	requireCode(t, err, 1366, "HY000", "file bad.csv, line 2, column k: Incorrect int value: 'x' for column 'k' at row 2")
	whole := func(db *sql.DB) {
		require.Equal(t, fmt.Sprint(rows), value(t, db, "SELECT COUNT(*) FROM t"))
		mustExec(t, db, "ADMIN CHECK TABLE t")
	}
	mustExec(t, db, "IMPORT INTO t FROM '"+path+"'")
	whole(db)

	r := randtest.Rand(t)
	kills := 3
	if longTests() {
		kills = 100
	}
	resumed := 0
	for i := range kills {
		mustExec(t, db, "TRUNCATE TABLE t")
		ended := make(chan error, 1)
		if i%2 == 0 {
			mustExec(t, db, "IMPORT INTO t FROM '"+path+"' WITH detached")
			ended <- nil
		} else {
			go func(db *sql.DB) {
				_, err := db.Exec("IMPORT INTO t FROM '" + path + "'")
				ended <- err
			}(db)
		}
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		require.Contains(t, []string{"0", fmt.Sprint(rows)}, value(t, db, "SELECT COUNT(*) FROM t"))
		node.kill()
		acknowledged := <-ended == nil
		require.NoError(t, db.Close())
		node = startNode(t, dir, "--secure-file-priv", files)
		db = node.db()
		require.Eventually(t, func() bool {
			return value(t, db, "SELECT COUNT(*) FROM mysql.tidb_import_jobs WHERE status IN ('pending', 'running')") == "0"
		}, 5*time.Minute, 10*time.Millisecond)
		if value(t, db, "SELECT COUNT(*) FROM t") == "0" { // killed before the job was durable
			require.False(t, acknowledged, "the import was acknowledged")
			mustExec(t, db, "ADMIN CHECK TABLE t")
		} else {
			require.Equal(t, "finished", value(t, db, "SELECT status FROM mysql.tidb_import_jobs ORDER BY id DESC LIMIT 1"))
			whole(db)
			resumed++
		}
		requireEmptyTempDir(t, filepath.Join(dir, "tmp"))
		mustExec(t, db, "INSERT INTO t VALUES (-1, 1, 'more')")
	}
	t.Logf("%d of %d imports went on to the end", resumed, kills)
}
