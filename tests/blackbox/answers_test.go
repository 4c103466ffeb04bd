package blackbox

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// answer is a question to the SQL layer whose right answer is MySQL's. It is
// asked before any of the indexes exist, with each built by fastddl, and with
// each built by TiDB, because an index must never change an answer.
type answer struct {
	name  string
	setup []string
	// indexes are ALTER TABLE clauses: "t ADD INDEX s (s)".
	indexes []string
	// queries and their rows, cells joined by a blank.
	queries []question
}

type question struct {
	query string
	want  []string
}

func q(query string, want ...string) question { return question{query, want} }

// many returns one INSERT with a row for each number below n.
func many(table string, n int, row func(i int) string) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = "(" + row(i) + ")"
	}
	return "INSERT INTO " + table + " VALUES " + strings.Join(rows, ",")
}

var answers = []answer{
	{
		name: "a join over a prefix index",
		setup: []string{
			"CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(20))",
			"CREATE TABLE b (id INT PRIMARY KEY, c VARCHAR(20))",
			many("a", 300, func(i int) string { return fmt.Sprintf("%d, 'na%04d'", i, i) }),
			many("b", 300, func(i int) string { return fmt.Sprintf("%d, 'na%04d'", i, i) }),
		},
		indexes: []string{"a ADD INDEX c (c(2))"},
		queries: []question{
			q("SELECT COUNT(*) FROM b JOIN a ON a.c = b.c", "300"),
			q("SELECT COUNT(*) FROM a JOIN b ON a.c = b.c WHERE a.id < 10", "10"),
			q("SELECT COUNT(*) FROM b WHERE c IN (SELECT c FROM a WHERE c LIKE 'na00%')", "100"),
		},
	},
	{
		name: "a delete over a prefix index without common values",
		setup: []string{
			"CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(20))",
			"CREATE TABLE b (id INT PRIMARY KEY, c VARCHAR(20))",
			many("a", 300, func(i int) string { return fmt.Sprintf("%d, 'na%04d'", i, i) }),
			many("b", 300, func(i int) string { return fmt.Sprintf("%d, 'nb%04d'", i, i) }),
		},
		indexes: []string{"a ADD INDEX c (c(1))"},
		queries: []question{
			q("DELETE b FROM b JOIN a ON a.c = b.c"),
			q("SELECT COUNT(*) FROM b", "300"),
		},
	},
	{
		name: "trailing blanks in a PAD SPACE collation",
		setup: []string{
			"CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20)) COLLATE utf8mb4_bin",
			"INSERT INTO t VALUES (1,'a'),(2,'a '),(3,'a'),(4,'a '),(5,'b')",
		},
		indexes: []string{"t ADD INDEX s (s)"},
		queries: []question{
			q("SELECT COUNT(*) FROM t x JOIN t y ON x.s = y.s", "17"),
			q("SELECT id FROM t WHERE s > 'a' ORDER BY id", "5"),
			q("SELECT id FROM t WHERE s <> 'a' ORDER BY id", "5"),
			q("SELECT id FROM t WHERE s NOT IN ('a', 'c') ORDER BY id", "5"),
			q("SELECT COUNT(*) FROM t WHERE s = 'a'", "4"),
			q("SELECT id FROM t ORDER BY s DESC LIMIT 1", "5"),
			q("SELECT COUNT(DISTINCT s) FROM t", "2"),
			q("UPDATE t SET s = 'z' WHERE s > 'a' ORDER BY s LIMIT 1"),
			q("SELECT id FROM t WHERE s = 'z'", "5"),
			q("DELETE FROM t WHERE s <> 'a'"),
			q("SELECT COUNT(*) FROM t", "4"),
		},
	},
	{
		name: "case and accents in IN, DISTINCT, UNION and GROUP_CONCAT",
		setup: []string{
			"CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20)) COLLATE utf8mb4_general_ci",
			"INSERT INTO t VALUES (1,'e'),(2,'E'),(3,'é'),(4,'f')",
		},
		indexes: []string{"t ADD INDEX s (s)"},
		queries: []question{
			q("SELECT id FROM t WHERE s IN ('E') ORDER BY id", "1", "2", "3"),
			q("SELECT id FROM t WHERE s IN ('x', 'E') ORDER BY id", "1", "2", "3"),
			q("SELECT COUNT(*) FROM (SELECT DISTINCT s FROM t) d", "2"),
			q("SELECT COUNT(DISTINCT s) FROM t", "2"),
			q("SELECT COUNT(*) FROM (SELECT s FROM t WHERE id = 1 UNION SELECT s FROM t WHERE id = 3) u", "1"),
			q("SELECT CHAR_LENGTH(GROUP_CONCAT(DISTINCT s)) FROM t", "3"),
			q("UPDATE t SET id = id + 10 WHERE s IN ('E')"),
			q("SELECT COUNT(*) FROM t WHERE id > 10", "3"),
		},
	},
	{
		name: "combining marks, ligatures and blanks in utf8mb4_0900_ai_ci",
		setup: []string{
			"CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20)) COLLATE utf8mb4_0900_ai_ci",
			"INSERT INTO t VALUES (1,'e'),(2,CONCAT('e', _utf8mb4 0xCC81)),(3,'ß'),(4,'ss'),(5,'œ'),(6,'oe'),(7,'æ'),(8,'ae')",
		},
		indexes: []string{"t ADD INDEX s (s)"},
		queries: []question{
			q("SELECT id FROM t WHERE s = 'é' ORDER BY id", "1", "2"),
			q("SELECT id FROM t WHERE s = 'ss' ORDER BY id", "3", "4"),
			q("SELECT id FROM t WHERE s = 'ae' ORDER BY id", "7", "8"),
			q("SELECT COUNT(*) FROM t x JOIN t y ON x.s = y.s", "16"),
		},
	},
	{
		name: "NOT NULL columns in ON DUPLICATE KEY UPDATE and strict updates",
		setup: []string{
			"CREATE TABLE t (a INT, b INT, c INT NOT NULL, d TINYINT, PRIMARY KEY (a, b) CLUSTERED)",
			"INSERT INTO t VALUES (1,1,1,1),(2,2,2,2)",
		},
		indexes: []string{"t ADD INDEX c (c)", "t ADD UNIQUE INDEX u (c, d)"},
		queries: []question{
			q("ERROR 1048 INSERT INTO t VALUES (1,1,5,5) ON DUPLICATE KEY UPDATE c = NULL"),
			q("ERROR 1048 INSERT INTO t VALUES (1,1,5,5) ON DUPLICATE KEY UPDATE a = NULL"),
			q("ERROR 1048 UPDATE t SET c = NULL WHERE a = 1"),
			q("ERROR 1264 UPDATE t SET d = 300 WHERE a = 1"),
			q("SELECT a, b, c, d FROM t ORDER BY a", "1 1 1 1", "2 2 2 2"),
		},
	},
	{
		name: "sums and averages of exact numbers",
		setup: []string{
			"CREATE TABLE t (id INT PRIMARY KEY, n BIGINT, d DECIMAL(30,10), u BIGINT UNSIGNED, f DOUBLE, j JSON)",
			`INSERT INTO t VALUES (1, 9007199254740993, 0.1, 18446744073709551615, 1e70, '{"n": 9007199254740993}'),
				(2, 1, 0.2, 9223372036854775807, 0.4, '{"n": 1}')`,
		},
		indexes: []string{"t ADD INDEX n (n)", "t ADD INDEX d (d)", "t ADD INDEX u (u)", "t ADD INDEX f (f)"},
		queries: []question{
			q("SELECT SUM(n), AVG(n), SUM(d), AVG(d) FROM t", "9007199254740994 4503599627370497.0000 0.3000000000 0.15000000000000"),
			q("SELECT SUM(n) FROM t WHERE n > 1", "9007199254740993"),
			q("SELECT j->'$.n' FROM t WHERE id = 1", "9007199254740993"),
			q("SELECT id FROM t WHERE f < 0.5", "2"),
			q("SELECT id FROM t WHERE f > 0.5", "1"),
			q("SELECT id FROM t WHERE u > 9223372036854775806 ORDER BY id", "1", "2"),
			q("SELECT id FROM t WHERE u > 9223372036854775807", "1"),
		},
	},
	{
		name: "NULLs in NOT IN and row comparisons",
		setup: []string{
			"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
			"CREATE TABLE s (id INT PRIMARY KEY, a INT, b INT)",
			"INSERT INTO t VALUES (1,1,1),(2,2,NULL),(3,NULL,3),(4,4,4)",
			"INSERT INTO s VALUES (1,1,1),(2,NULL,2)",
		},
		indexes: []string{"t ADD INDEX a (a)", "s ADD INDEX ab (a, b)"},
		queries: []question{
			q("SELECT id FROM t WHERE a NOT IN (SELECT a FROM s)"),
			q("SELECT id FROM t WHERE a NOT IN (SELECT a FROM s WHERE a IS NOT NULL) ORDER BY id", "2", "4"),
			q("SELECT id FROM t WHERE (a, b) IN (SELECT a, b FROM s)", "1"),
			q("SELECT id FROM t WHERE (a, b) NOT IN (SELECT a, b FROM s) ORDER BY id", "3", "4"),
			q("SELECT id, (a, b) IN (SELECT a, b FROM s) FROM t ORDER BY id", "1 1", "2 NULL", "3 0", "4 0"),
		},
	},
	{
		name: "window frames",
		setup: []string{
			"CREATE TABLE t (id INT PRIMARY KEY, g INT, v INT)",
			"INSERT INTO t VALUES (1,1,1),(2,1,2),(3,1,4),(4,2,8)",
		},
		indexes: []string{"t ADD INDEX g (g, v)"},
		queries: []question{
			q("SELECT id, SUM(v) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t ORDER BY id", "1 1", "2 3", "3 6", "4 8"),
			q("SELECT id, SUM(v) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM t ORDER BY id", "1 15", "2 14", "3 12", "4 8"),
		},
	},
	{
		name: "dates and time zones",
		setup: []string{
			"SET time_zone = '+02:00'",
			"CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL, d DATE)",
			"INSERT INTO t VALUES (1, '2024-01-01 02:00:00', '2024-02-29')",
		},
		indexes: []string{"t ADD INDEX ts (ts)", "t ADD INDEX d (d)"},
		queries: []question{
			q("SELECT UNIX_TIMESTAMP(ts) FROM t", "1704067200"),
			q("SELECT COUNT(*) FROM t WHERE ts = '2024-01-01 02:00:00'", "1"),
			q("SELECT CAST('2024-02-30' AS DATE)", "NULL"),
			q("ERROR 1292 INSERT INTO t VALUES (2, NULL, '2024-02-30')"),
		},
	},
	{
		name: "characters that latin1 does not have",
		setup: []string{
			"CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20)) CHARACTER SET ascii",
			"INSERT INTO t VALUES (1, 'abc')",
		},
		indexes: []string{"t ADD INDEX s (s)"},
		queries: []question{
			q("ERROR 1366 INSERT INTO t VALUES (2, 'né')"),
			q("SELECT s FROM t", "abc"),
		},
	},
	{
		name: "foreign keys and checks",
		setup: []string{
			"SET GLOBAL tidb_enable_check_constraint = ON",
			"CREATE TABLE p (id INT PRIMARY KEY, v INT, CHECK (v > 0))",
			"CREATE TABLE t (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
			"INSERT INTO p VALUES (1, 1), (2, 2)",
			"INSERT INTO t VALUES (1, 1), (2, 2)",
		},
		indexes: []string{"p ADD INDEX v (v)"},
		queries: []question{
			q("ERROR 1452 INSERT INTO t VALUES (3, 9)"),
			q("ERROR 3819 INSERT INTO p VALUES (3, 0)"),
			q("DELETE FROM p WHERE id = 1"),
			q("SELECT id FROM t", "2"),
			q("SELECT COUNT(*) FROM information_schema.key_column_usage WHERE table_schema = DATABASE() AND constraint_name = 'fk'", "1"),
		},
	},
	{
		name: "the largest LIMIT",
		setup: []string{
			"CREATE TABLE t (id INT PRIMARY KEY, v INT)",
			"INSERT INTO t VALUES (1, 3), (2, 2), (3, 1)",
		},
		indexes: []string{"t ADD INDEX v (v)"},
		queries: []question{
			q("SELECT id FROM t ORDER BY v LIMIT 1, 18446744073709551615", "2", "1"),
			q("SELECT id FROM t FORCE INDEX (PRIMARY) ORDER BY id LIMIT 1", "1"),
			q("SELECT MIN(v), MAX(v) FROM t", "1 3"),
			q("SELECT id FROM t WHERE id = 1 OR v = 2 ORDER BY id", "1", "2"),
		},
	},
}

// ask checks every question of an answer in a database of its own.
func (a answer) ask(t *testing.T, n *node, name string, prepare func(conn *sql.DB)) {
	t.Helper()
	admin := n.open("")
	mustExec(t, admin, "CREATE DATABASE "+name)
	db := n.open(name)
	db.SetMaxOpenConns(1) // SET in setup is for the session
	for _, statement := range a.setup {
		mustExec(t, db, statement)
	}
	prepare(db)
	for _, question := range a.queries {
		if rest, ok := strings.CutPrefix(question.query, "ERROR "); ok {
			code, statement, _ := strings.Cut(rest, " ")
			_, err := db.Exec(statement)
			require.ErrorContains(t, err, "Error "+code, "%s", statement)
			continue
		}
		if !strings.HasPrefix(question.query, "SELECT") {
			mustExec(t, db, question.query)
			continue
		}
		var got []string
		for _, row := range queryAll(t, db, question.query) {
			got = append(got, strings.Join(row, " "))
		}
		require.Equal(t, question.want, got, "%s", question.query)
	}
	for _, row := range queryAll(t, db, "SHOW TABLES") {
		checkTable(t, db, row[0])
	}
	mustExec(t, admin, "DROP DATABASE "+name)
}

// TestAnswers asks for what MySQL answers, with and without the index.
func TestAnswers(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, t.TempDir())
	for i, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			a.ask(t, n, fmt.Sprintf("plain%d", i), func(*sql.DB) {})
			for _, engine := range []string{"fastddl", "tidb"} {
				for j, index := range a.indexes {
					a.ask(t, n, fmt.Sprintf("%s%d_%d", engine, i, j), func(db *sql.DB) {
						mustExec(t, db, "SET SESSION fastddl_ddl_engine = "+engine)
						mustExec(t, db, "ALTER TABLE "+index)
					})
				}
			}
		})
	}
}

// TestBinaryParameters sends values as parameters of prepared statements and
// reads them back.
func TestBinaryParameters(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.openAs("root", "", "test") // parameters go in the binary protocol
	mustExec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, d DATETIME(6), s VARCHAR(20), j JSON)")
	for i, fraction := range []string{"045678", "000001", "100000", "999999"} {
		mustExec(t, db, "INSERT INTO t VALUES (?, ?, ?, ?)", i, "2024-01-02 03:04:05."+fraction, "x"+fraction, `{"a": 9007199254740993}`)
		require.Equal(t, [][]string{{"2024-01-02 03:04:05." + fraction, "x" + fraction, `{"a": 9007199254740993}`}},
			queryAll(t, db, "SELECT d, s, j FROM t WHERE id = ? AND d = ?", i, "2024-01-02 03:04:05."+fraction))
	}
	mustExec(t, db, "ALTER TABLE t ADD INDEX d (d)")
	checkTable(t, db, "t")
	require.Equal(t, [][]string{{"1"}}, queryAll(t, db, "SELECT id FROM t WHERE d = ?", "2024-01-02 03:04:05.000001"))
}

// TestIsolation is what a transaction of MySQL's REPEATABLE READ promises.
func TestIsolation(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	mustExec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	mustExec(t, db, "INSERT INTO t VALUES (1, 1), (2, 1)")
	a, b := n.terminal(), n.terminal()

	a.exec("START TRANSACTION WITH CONSISTENT SNAPSHOT")
	b.exec("UPDATE t SET v = 2 WHERE id = 1")
	require.Equal(t, "1", a.value("SELECT v FROM t WHERE id = 1"), "the snapshot was taken by START TRANSACTION")
	a.exec("COMMIT")

	a.exec("BEGIN")
	require.Equal(t, "2", a.value("SELECT v FROM t WHERE id = 1 FOR UPDATE"))
	b.exec("SET innodb_lock_wait_timeout = 1")
	b.exec("BEGIN")
	requireCode(t, b.try("UPDATE t SET v = 3 WHERE id = 1"), 1205, "HY000", "Lock wait timeout exceeded")
	requireCode(t, b.try("SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT"), 3572, "HY000", "NOWAIT")
	b.exec("SET innodb_lock_wait_timeout = 50")
	waiting := b.start("UPDATE t SET v = v + 10 WHERE id = 1")
	a.exec("UPDATE t SET v = 5 WHERE id = 1")
	a.exec("COMMIT")
	require.NoError(t, <-waiting)
	b.exec("COMMIT")
	require.Equal(t, "15", b.value("SELECT v FROM t WHERE id = 1"))

	// Two transactions that lock in opposite order: one of them is the victim.
	a.exec("BEGIN")
	b.exec("BEGIN")
	a.exec("UPDATE t SET v = 0 WHERE id = 1")
	b.exec("UPDATE t SET v = 0 WHERE id = 2")
	blocked := a.start("UPDATE t SET v = 0 WHERE id = 2")
	errB := b.try("UPDATE t SET v = 0 WHERE id = 1")
	if errB != nil {
		requireCode(t, errB, 1213, "40001", "Deadlock found")
		b.exec("ROLLBACK")
		require.NoError(t, <-blocked)
		a.exec("COMMIT")
		return
	}
	requireCode(t, <-blocked, 1213, "40001", "Deadlock found")
	a.exec("ROLLBACK")
	b.exec("COMMIT")
}
