package blackbox

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// listed are the duplicates of the newest job that has any, as "entry | rows |
// handles", in the list's order.
func listed(t *testing.T, db *sql.DB) []string {
	t.Helper()
	var out []string
	for _, row := range queryAll(t, db, `SELECT ENTRY, ROW_COUNT, ROW_HANDLES FROM mysql.fastddl_ddl_duplicates
		WHERE JOB_ID = (SELECT MAX(JOB_ID) FROM mysql.fastddl_ddl_duplicates)`) {
		out = append(out, strings.ReplaceAll(strings.Join(row, " | "), ", ", ","))
	}
	return out
}

func requireDuplicate(t *testing.T, err error, message string) {
	t.Helper()
	var e *mysql.MySQLError
	require.ErrorAs(t, err, &e)
	require.EqualValues(t, 1062, e.Number, e.Message)
	require.Equal(t, "23000", string(e.SQLState[:]))
	require.Regexp(t, `^`+regexp.QuoteMeta(message)+` \(rows listed in mysql\.fastddl_ddl_errors, job \d+\)$`, e.Message)
}

// fillRows inserts rows 1 to n in few statements.
func fillRows(t *testing.T, db *sql.DB, table string, n int, row func(id int) string) {
	t.Helper()
	const batch = 500
	for from := 1; from <= n; from += batch {
		rows := make([]string, 0, batch)
		for id := from; id < from+batch && id <= n; id++ {
			rows = append(rows, row(id))
		}
		mustExec(t, db, "INSERT INTO "+table+" VALUES "+strings.Join(rows, ","))
	}
}

// What a DBA does about a 1062: look at the list, delete by the handles listed,
// and add the index.
func TestListedDuplicatesCanBeDeleted(t *testing.T) {
	randtest.SkipShort(t)
	const rows = 2000
	n := startNode(t, t.TempDir())
	db, other := n.db(), n.db()
	for _, c := range []struct {
		name, column, index string
		row                 string // of the distinct rows, with the id as %d
		duplicates          map[int]string
		entry               string
		want                []string
		remove              string
	}{
		{
			"integer", "v INT", "v", "%d", map[int]string{5: "1999", 7: "1998", 1500: "NULL", 1600: "NULL", 1700: "1998"},
			"1998", []string{"1998 | 3 | 7,1700,1998", "1999 | 2 | 5,1999"}, "7,1700,5",
		}, {
			"collation", "v VARCHAR(20) COLLATE utf8mb4_general_ci", "v", "'row %d'", map[int]string{3: "'a'", 1900: "'A '", 1950: "'\u00c1'"},
			"a", []string{"a | 3 | 3,1900,1950"}, "1900,1950",
		}, {
			"prefix", "v VARCHAR(40)", "v(8)", "'%08d'", map[int]string{2: "'00000009 x'", 1900: "'00000009 y'"},
			"00000009", []string{"00000009 | 3 | 2,9,1900"}, "2,1900",
		}, {
			"decimal", "v DECIMAL(10,3)", "v", "%d + 0.5", map[int]string{4: "7.5"},
			"7.500", []string{"7.500 | 2 | 4,7"}, "7",
		}, {
			"timestamp", "v TIMESTAMP", "v", "FROM_UNIXTIME(1700000000 + %d)", map[int]string{4: "FROM_UNIXTIME(1700001000)"},
			"", []string{" | 2 | 4,1000"}, "4",
		}, {
			"enum", "v INT, e ENUM('x','y','z')", "v, e", "%d, 'x'", map[int]string{1: "77, 'y'", 77: "77, 'y'", 78: "77, 'z'"},
			"77-y", []string{"77-y | 2 | 1,77"}, "1",
		}, {
			"composite with NULL", "v INT, w VARCHAR(10)", "w, v", "%d, 'w'", map[int]string{1: "9, 'w'", 2: "NULL, 'w'", 3: "NULL, 'w'"},
			"w-9", []string{"w-9 | 2 | 1,9"}, "9",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := "t_" + strings.ReplaceAll(strings.ToLower(c.name), " ", "_")
			mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, "+c.column+")")
			fillRows(t, db, table, rows, func(id int) string {
				values, ok := c.duplicates[id]
				if !ok {
					values = fmt.Sprintf(c.row, id)
				}
				return fmt.Sprintf("(%d, %s)", id, values)
			})
			if c.entry == "" {
				c.entry = value(t, db, "SELECT v FROM "+table+" WHERE id = 4")
				c.want[0] = c.entry + c.want[0]
			}
			alter := fmt.Sprintf("ALTER TABLE %s ADD UNIQUE u (%s)", table, c.index)
			_, err := db.Exec(alter)
			requireDuplicate(t, err, fmt.Sprintf("Duplicate entry '%s' for key '%s.u'", c.entry, table))
			require.Equal(t, c.want, listed(t, other), "from another session")
			mustExec(t, db, "DELETE FROM "+table+" WHERE id IN ("+c.remove+")")
			mustExec(t, db, alter)
			mustExec(t, db, "ADMIN CHECK TABLE "+table)
		})
	}
}

// Rows are named by what the table has: the values of a clustered primary key, or
// hidden row IDs. The list survives a restart.
func TestListedDuplicatesNameTheirRows(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	mustExec(t, db, "CREATE TABLE c (a VARCHAR(10) COLLATE utf8mb4_general_ci, b DATE, v INT, PRIMARY KEY (a, b) CLUSTERED)")
	mustExec(t, db, "INSERT INTO c VALUES ('X','2024-01-01',1), ('y','2024-01-02',1), ('z','2024-01-03',2)")
	_, err := db.Exec("CREATE UNIQUE INDEX u ON c (v)")
	requireDuplicate(t, err, "Duplicate entry '1' for key 'c.u'")
	require.Equal(t, []string{"1 | 2 | X-2024-01-01,y-2024-01-02"}, listed(t, db))

	mustExec(t, db, "CREATE TABLE b (id BIGINT UNSIGNED PRIMARY KEY, v INT)")
	mustExec(t, db, "INSERT INTO b VALUES (1,1), (18446744073709551615,1)")
	_, err = db.Exec("CREATE UNIQUE INDEX u ON b (v)")
	requireDuplicate(t, err, "Duplicate entry '1' for key 'b.u'")
	require.ElementsMatch(t, []string{"1", "18446744073709551615"}, strings.Split(value(t, db, "SELECT ROW_HANDLES FROM mysql.fastddl_ddl_duplicates WHERE TABLE_NAME = 'b'"), ", "))

	mustExec(t, db, "CREATE TABLE h (v INT)")
	mustExec(t, db, "INSERT INTO h VALUES (4), (5), (4)")
	_, err = db.Exec("ALTER TABLE h ADD PRIMARY KEY (v)")
	requireDuplicate(t, err, "Duplicate entry '4' for key 'h.PRIMARY'")
	rows := queryAll(t, db, "SELECT DB_NAME, INDEX_NAME, ENTRY, ROW_COUNT FROM mysql.fastddl_ddl_duplicates WHERE TABLE_NAME = 'h'")
	require.Equal(t, [][]string{{"test", "PRIMARY", "4", "2"}}, rows)

	before := queryAll(t, db, "SELECT * FROM mysql.fastddl_ddl_duplicates")
	n.kill()
	require.Equal(t, before, queryAll(t, startNode(t, dir).db(), "SELECT * FROM mysql.fastddl_ddl_duplicates"))
}

func TestAtMost100DuplicatesAreListed(t *testing.T) {
	for _, engine := range []string{"fastddl", "tidb"} {
		t.Run(engine, func(t *testing.T) {
			db := startNode(t, t.TempDir()).db()
			db.SetMaxOpenConns(1)
			mustExec(t, db, "SET SESSION fastddl_ddl_engine = "+engine)
			mustExec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
			fillRows(t, db, "t", 4000, func(id int) string { return fmt.Sprintf("(%d, %d)", id, id%2000) })
			_, err := db.Exec("ALTER TABLE t ADD UNIQUE u (v)")
			var e *mysql.MySQLError
			require.True(t, errors.As(err, &e) && e.Number == 1062, "%v", err)
			got := listed(t, db)
			if engine == "tidb" {
				require.Empty(t, got, "TiDB names one")
			} else {
				require.Contains(t, e.Message, "'"+strings.Split(got[0], " ")[0]+"'")
				require.Len(t, got, 100)
				for i, d := range got {
					first := i
					if i == 0 {
						first = 2000
					}
					require.Equal(t, fmt.Sprintf("%d | 2 | %d,%d", i, first, first+2000), d)
				}
			}
		})
	}
}

// Duplicates that DML brings in while the index is built.
func TestDuplicatesOfDMLAreListed(t *testing.T) {
	randtest.SkipShort(t)
	const rows = 20_000
	db := startNode(t, t.TempDir()).db()
	mustExec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	fillRows(t, db, "t", rows, func(id int) string { return fmt.Sprintf("(%d, %d)", id, id) })
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 4000")
	done := make(chan error, 1)
	go func() {
		_, err := db.Exec("ALTER TABLE t ADD UNIQUE u (v)")
		done <- err
	}()
	require.Eventually(t, func() bool {
		return len(queryAll(t, db, "SELECT 1 FROM mysql.fastddl_ddl_jobs WHERE SCHEMA_STATE = 'write reorganization' AND STAGE = 'merge'")) == 1
	}, startTimeout, 5*time.Millisecond)
	mustExec(t, db, "INSERT INTO t VALUES (30001, 19000), (30002, 50000), (30003, 7)")
	mustExec(t, db, "UPDATE t SET v = 8 WHERE id = 18000")
	// Values that change hands are no duplicates.
	mustExec(t, db, "UPDATE t SET v = 60000 WHERE id = 100")
	mustExec(t, db, "UPDATE t SET v = 100 WHERE id = 101")
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	requireDuplicate(t, <-done, "Duplicate entry '7' for key 't.u'")
	require.Equal(t, []string{"7 | 2 | 7,30003", "8 | 2 | 8,18000", "19000 | 2 | 19000,30001"}, listed(t, db))
	mustExec(t, db, "DELETE FROM t WHERE id IN (30003, 18000, 30001)")
	mustExec(t, db, "ALTER TABLE t ADD UNIQUE u (v)")
	mustExec(t, db, "ADMIN CHECK TABLE t")
}

// A transaction that has two rows with one value for a while, beside the build that
// will forbid it, is made completely or, as TiDB cannot always commit it, not at all.
func TestTransientDuplicateBesideTheBuild(t *testing.T) {
	const rows = 20_000
	n := startNode(t, t.TempDir())
	db := n.db()
	mustExec(t, db, "CREATE TABLE t (id INT PRIMARY KEY NONCLUSTERED, v INT, c INT)")
	fillRows(t, db, "t", rows, func(id int) string { return fmt.Sprintf("(%d, %d, 0)", id, id) })
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 8192")
	alter := n.terminal().start("ALTER TABLE t ADD UNIQUE u (v)")
	runningJob(t, db)
	want := "0"
	c := n.terminal()
	c.exec("BEGIN")
	c.exec("INSERT INTO t VALUES (50000, 5, 1)")
	c.exec("DELETE FROM t WHERE id = 50000")
	c.exec("UPDATE t SET c = 2 WHERE id = 5")
	if c.try("COMMIT") == nil {
		want = "2"
	}
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	require.NoError(t, requireEnds(t, alter))
	require.Equal(t, want, value(t, db, "SELECT c FROM t WHERE v = 5"))
	mustExec(t, db, "ADMIN CHECK TABLE t")
}
