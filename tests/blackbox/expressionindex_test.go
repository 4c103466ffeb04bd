package blackbox

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/internal/randtest"
)

// writeNames changes names, some to and from upper case, until ctx ends, and
// returns how many statements it ran.
func writeNames(ctx context.Context, db *sql.DB, worker, rows int) (n int, err error) {
	for ; ctx.Err() == nil; n++ {
		id := (n*37+worker*101)%rows + 1
		switch n % 4 {
		case 0:
			_, err = db.Exec("UPDATE people SET name = UPPER(name) WHERE id = ?", id)
		case 1:
			_, err = db.Exec("UPDATE people SET name = LOWER(name), born = born + INTERVAL 1 DAY WHERE id = ?", id)
		case 2:
			_, err = db.Exec("REPLACE INTO people (id, name, born) VALUES (?, ?, '1990-05-17')", id, fmt.Sprintf("Name %d", id))
		case 3:
			_, err = db.Exec("INSERT INTO people (id, name, born) VALUES (?, ?, '2001-01-01') ON DUPLICATE KEY UPDATE born = VALUES(born)",
				rows+1+worker*1_000_000+n, fmt.Sprintf("New %d-%d", worker, n))
		}
		if err != nil && !isConflict(err) {
			return n, err
		}
	}
	return n, nil
}

// Indexes on expressions are built beside writes, over a kill of the server, and
// find what a filter on the same expression asks for.
func TestExpressionIndexesBesideWrites(t *testing.T) {
	randtest.SkipShort(t)
	const rows = 20_000
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	mustExec(t, db, `CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(40), born DATE, year INT AS (YEAR(born)) STORED)`)
	fillRows(t, db, "people", rows, func(id int) string {
		return fmt.Sprintf("(%d, 'Name %d', '19%02d-05-17', DEFAULT)", id, id, id%90+10)
	})

	build := func(statements ...string) {
		ctx, stop := context.WithCancel(context.Background())
		var group errgroup.Group
		var written atomic.Int64
		for worker := range 2 {
			group.Go(func() error {
				n, err := writeNames(ctx, db, worker, rows)
				written.Add(int64(n))
				return err
			})
		}
		for _, s := range statements {
			mustExec(t, db, s)
		}
		stop()
		require.NoError(t, group.Wait())
		require.Positive(t, written.Load())
		checkTable(t, db, "people")
	}
	build("ALTER TABLE people ADD COLUMN decade INT AS (year DIV 10 * 10) VIRTUAL",
		"ALTER TABLE people ADD INDEX lo ((LOWER(name))), ADD INDEX decade (decade)",
		"CREATE UNIQUE INDEX both_ ON people ((LOWER(name)), id)")

	const byName = "SELECT id FROM people WHERE LOWER(name) = 'name 4711'"
	require.Contains(t, explain(t, db, byName), "index:lo(")
	require.Equal(t, "4711", value(t, db, byName))
	require.Equal(t, "4711", value(t, db, "SELECT id FROM people WHERE LOWER(name) = ?", "name 4711"))
	require.Contains(t, explain(t, db, "SELECT COUNT(*) FROM people WHERE decade = 1980"), "index:decade(")
	require.Equal(t, value(t, db, "SELECT COUNT(*) FROM people WHERE YEAR(born) BETWEEN 1980 AND 1989"),
		value(t, db, "SELECT COUNT(*) FROM people WHERE decade = 1980"))
	require.Contains(t, value(t, db, "SELECT GROUP_CONCAT(EXPRESSION) FROM information_schema.STATISTICS WHERE TABLE_NAME = 'people'"), "lower(`name`)")
	require.Len(t, queryAll(t, db, "SELECT * FROM people WHERE id = 4711")[0], 5, "hidden columns are hidden")

	mustExec(t, db, "UPDATE people SET name = 'nAME 4711' WHERE id = 4712")
	_, err := db.Exec("ALTER TABLE people ADD UNIQUE INDEX one ((LOWER(name)))")
	requireCode(t, err, 1062, "23000", "Duplicate entry 'name 4711' for key 'people.one'")
	_, err = db.Exec("INSERT INTO people (id, name, year) VALUES (1000000000, 'x', 1990)")
	requireCode(t, err, 3105, "HY000", "The value specified for generated column 'year' in table 'people' is not allowed.")
	_, err = db.Exec("ALTER TABLE people DROP COLUMN name")
	requireCode(t, err, 3837, "HY000", "")

	mustExec(t, db, "ALTER TABLE people DROP INDEX lo")
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 65536")
	go func() { _, _ = db.Exec("ALTER TABLE people ADD INDEX up ((UPPER(name)), born)") }()
	runningJob(t, db)
	mustExec(t, db, "UPDATE people SET name = 'Changed' WHERE id < 10")
	n.kill()

	db = startNode(t, dir).db()
	mustExec(t, db, "UPDATE people SET name = 'changed again' WHERE id < 5")
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	waitForJobs(t, db)
	checkTable(t, db, "people")
	changed := "SELECT COUNT(*) FROM people WHERE UPPER(name) = 'CHANGED AGAIN'"
	require.Contains(t, explain(t, db, changed), "index:up(")
	require.Equal(t, "4", value(t, db, changed))
}

// LOAD DATA fills generated columns and indexes on expressions; INTO OUTFILE writes no hidden columns.
func TestLoadDataComputesGeneratedColumns(t *testing.T) {
	files := t.TempDir()
	in, out := filepath.Join(files, "in"), filepath.Join(files, "out")
	require.NoError(t, os.WriteFile(in, []byte("1\tAnn\t10\n2\tBob\t20\n"), 0o600))
	db := startNode(t, t.TempDir(), "--secure-file-priv", files).db()
	mustExec(t, db, "SET GLOBAL local_infile = ON")
	mysql.RegisterLocalFile(in)
	defer mysql.DeregisterLocalFile(in)
	mustExec(t, db, "CREATE TABLE g (id INT PRIMARY KEY, name VARCHAR(20), a INT, v INT AS (a * 2) VIRTUAL, s INT AS (a + 1) STORED, KEY lo ((LOWER(name))), KEY v (v))")
	mustExec(t, db, "LOAD DATA LOCAL INFILE '"+in+"' INTO TABLE g")
	mustExec(t, db, "LOAD DATA LOCAL INFILE '"+in+"' REPLACE INTO TABLE g (id, name, @twice) SET a = @twice * 2")
	require.Equal(t, [][]string{{"2", "Bob", "40", "80", "41"}}, queryAll(t, db, "SELECT * FROM g WHERE LOWER(name) = 'bob'"))
	require.Equal(t, "1", value(t, db, "SELECT id FROM g WHERE v = 40"))
	checkTable(t, db, "g")
	mustExec(t, db, "SELECT * FROM g INTO OUTFILE '"+out+"'")
	written, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "1\tAnn\t20\t40\t21\n2\tBob\t40\t80\t41\n", string(written))
}
