package blackbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryTypeKeepsItsValue(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	mustExec(t, db, `CREATE TABLE types (
		id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
		ti TINYINT, si SMALLINT, mi MEDIUMINT, i INT, bi BIGINT, ub BIGINT UNSIGNED,
		d DECIMAL(20,6), f FLOAT, db DOUBLE,
		c CHAR(10), vc VARCHAR(50), tx TEXT, b BINARY(4), vb VARBINARY(50), bl BLOB,
		da DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(3), y YEAR)`)
	mustExec(t, db, `INSERT INTO types VALUES (18446744073709551615,
		-128, -32768, -8388608, -2147483648, -9223372036854775808, 18446744073709551615,
		-12345678901234.567891, 1.5, 2.25,
		'abc', 'grüße', 'text', 'ab', 'v\0b', 'blob',
		'2024-02-29', '2024-02-29 23:59:59.123456', '2024-02-29 12:00:00.123', '-838:59:59', 2024)`)
	mustExec(t, db, "INSERT INTO types (id) VALUES (1)")
	want := [][]string{
		{"1", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"},
		{"18446744073709551615", "-128", "-32768", "-8388608", "-2147483648", "-9223372036854775808", "18446744073709551615",
			"-12345678901234.567891", "1.5", "2.25", "abc", "grüße", "text", "ab\x00\x00", "v\x00b", "blob",
			"2024-02-29", "2024-02-29 23:59:59.123456", "2024-02-29 12:00:00.123", "-838:59:59.000", "2024"},
	}
	require.Equal(t, want, queryAll(t, db, "SELECT * FROM types ORDER BY id"))
	require.Zero(t, n.terminate())
	n = startNode(t, dir)
	require.Equal(t, want, queryAll(t, n.db(), "SELECT * FROM types ORDER BY id"), "after a restart")
}

func TestStatements(t *testing.T) {
	db := startNode(t, t.TempDir()).db()
	mustExec(t, db, `CREATE TABLE p (id INT AUTO_INCREMENT PRIMARY KEY, g INT, name VARCHAR(20), KEY g (g), UNIQUE KEY name (name))`)
	mustExec(t, db, "INSERT INTO p (g, name) VALUES (1,'a'), (1,'b'), (2,'c'), (3,'d')")
	require.Equal(t, [][]string{{"1"}, {"2"}, {"3"}, {"4"}}, queryAll(t, db, "SELECT id FROM p"))

	for _, tc := range []struct {
		name, query string
		want        [][]string
	}{
		{"point", "SELECT name FROM p WHERE id = 3", [][]string{{"c"}}},
		{"range", "SELECT id FROM p WHERE id > 1 AND id < 4", [][]string{{"2"}, {"3"}}},
		{"reverse", "SELECT id FROM p ORDER BY id DESC LIMIT 2", [][]string{{"4"}, {"3"}}},
		{"index", "SELECT name FROM p WHERE g = 1 ORDER BY name", [][]string{{"a"}, {"b"}}},
		{"index range", "SELECT name FROM p WHERE g >= 2 ORDER BY g", [][]string{{"c"}, {"d"}}},
		{"unique", "SELECT id FROM p WHERE name = 'd'", [][]string{{"4"}}},
		{"covering", "SELECT g FROM p WHERE g > 1 ORDER BY g DESC", [][]string{{"3"}, {"2"}}},
		{"join", "SELECT a.id, b.id FROM p a JOIN p b ON a.g = b.g WHERE a.id < b.id", [][]string{{"1", "2"}}},
		{"group", "SELECT g, COUNT(*) FROM p GROUP BY g ORDER BY g", [][]string{{"1", "2"}, {"2", "1"}, {"3", "1"}}},
		{"in", "SELECT id FROM p WHERE id IN (1, 4, 9) ORDER BY id", [][]string{{"1"}, {"4"}}},
		{"null", "SELECT id FROM p WHERE g IS NULL", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, queryAll(t, db, tc.query))
		})
	}

	mustExec(t, db, "UPDATE p SET g = g + 10 WHERE g = 1")
	require.Equal(t, [][]string{{"1"}, {"2"}}, queryAll(t, db, "SELECT id FROM p WHERE g = 11 ORDER BY id"))
	mustExec(t, db, "REPLACE INTO p VALUES (1, 5, 'c')")
	require.Equal(t, [][]string{{"1", "5", "c"}, {"2", "11", "b"}, {"4", "3", "d"}}, queryAll(t, db, "SELECT * FROM p ORDER BY id"),
		"REPLACE removes every row it collides with")
	mustExec(t, db, "INSERT INTO p (id, g, name) VALUES (4, 0, 'x') ON DUPLICATE KEY UPDATE g = g + 1, name = VALUES(name)")
	require.Equal(t, [][]string{{"4", "x"}}, queryAll(t, db, "SELECT g, name FROM p WHERE id = 4"))
	mustExec(t, db, "INSERT IGNORE INTO p (id, g, name) VALUES (4, 9, 'y'), (9, 9, 'z')")
	require.Equal(t, "3", value(t, db, "SELECT COUNT(*) FROM p WHERE name <> 'b'"))
	mustExec(t, db, "DELETE FROM p WHERE g = 11")
	require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM p WHERE g = 11"))
	mustExec(t, db, "ADMIN CHECK TABLE p")

	result, err := db.Exec("INSERT INTO p (g, name) VALUES (7, 'n')")
	require.NoError(t, err)
	id, err := result.LastInsertId()
	require.NoError(t, err)
	require.Greater(t, id, int64(9))
	require.Contains(t, explain(t, db, "SELECT name FROM p WHERE g = 7"), "g")
}

func TestTransactions(t *testing.T) {
	db := startNode(t, t.TempDir()).db()
	mustExec(t, db, "CREATE TABLE tx (id INT PRIMARY KEY, v INT)")
	tx, err := db.Begin()
	require.NoError(t, err)
	for _, q := range []string{
		"INSERT INTO tx VALUES (1, 1)", "SAVEPOINT a", "INSERT INTO tx VALUES (2, 2)",
		"UPDATE tx SET v = 9 WHERE id = 1", "ROLLBACK TO SAVEPOINT a", "INSERT INTO tx VALUES (3, 3)",
	} {
		_, err := tx.Exec(q)
		require.NoError(t, err, q)
	}
	require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM tx"), "no other session sees what is not committed")
	require.NoError(t, tx.Commit())
	require.Equal(t, [][]string{{"1", "1"}, {"3", "3"}}, queryAll(t, db, "SELECT * FROM tx ORDER BY id"))

	tx, err = db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("DELETE FROM tx")
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	require.Equal(t, "2", value(t, db, "SELECT COUNT(*) FROM tx"))
}

func TestSnapshotIsolation(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	mustExec(t, db, "CREATE TABLE si (id INT PRIMARY KEY, v INT)")
	mustExec(t, db, "INSERT INTO si VALUES (1, 1)")
	a, err := db.Begin()
	require.NoError(t, err)
	var v int
	require.NoError(t, a.QueryRow("SELECT v FROM si WHERE id = 1").Scan(&v))
	mustExec(t, db, "UPDATE si SET v = 2 WHERE id = 1")
	require.NoError(t, a.QueryRow("SELECT v FROM si WHERE id = 1").Scan(&v))
	require.Equal(t, 1, v, "a transaction reads one snapshot")
	_, err = a.Exec("UPDATE si SET v = v + 10 WHERE id = 1")
	require.NoError(t, err)
	require.NoError(t, a.Commit())
	require.Equal(t, "12", value(t, db, "SELECT v FROM si WHERE id = 1"), "a statement that writes reads what is there now")

	o := n.terminal()
	o.exec("BEGIN OPTIMISTIC")
	require.Equal(t, "12", o.value("SELECT v FROM si WHERE id = 1"))
	mustExec(t, db, "UPDATE si SET v = 2 WHERE id = 1")
	o.exec("UPDATE si SET v = 10 WHERE id = 1")
	err = o.try("COMMIT")
	require.True(t, isConflict(err), "the second optimistic writer is asked to retry, got %v", err)
	require.Equal(t, "2", value(t, db, "SELECT v FROM si WHERE id = 1"))
}

func TestUsersAndPasswords(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	mustExec(t, db, "CREATE USER 'app'@'%' IDENTIFIED BY 'secret'")
	mustExec(t, db, "GRANT SELECT ON test.* TO 'app'@'%'")
	mustExec(t, db, "CREATE TABLE u (id INT PRIMARY KEY)")
	require.Zero(t, n.terminate())

	n = startNode(t, dir)
	app := n.openAs("app", "secret", "test")
	require.Equal(t, "0", value(t, app, "SELECT COUNT(*) FROM u"))
	_, err := app.Exec("INSERT INTO u VALUES (1)")
	requireCode(t, err, 1142, "42000", "INSERT command denied")
	err = n.openAs("app", "wrong", "test").Ping()
	requireCode(t, err, 1045, "28000", "Access denied")
}

func TestKill(t *testing.T) {
	db := startNode(t, t.TempDir()).db()
	mustExec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	mustExec(t, db, "INSERT INTO t VALUES (1)")
	done := make(chan error, 1)
	go func() {
		var slept int
		done <- db.QueryRow("SELECT SLEEP(1000) FROM t").Scan(&slept)
	}()
	var id string
	require.Eventually(t, func() bool {
		for _, row := range queryAll(t, db, processList) {
			for _, cell := range row {
				if cell == "SELECT SLEEP(1000) FROM t" {
					id = row[0]
				}
			}
		}
		return id != ""
	}, startTimeout, pollInterval)
	mustExec(t, db, "KILL QUERY "+id)
	requireCode(t, requireEnds(t, done), 1317, "70100", "Query execution was interrupted")
}

func TestGlobalVariablesArePersisted(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_worker_cnt = 7")
	mustExec(t, db, "SET GLOBAL tidb_ddl_enable_fast_reorg = OFF")
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_batch_size = 1") // clamped
	n.kill()
	n = startNode(t, dir)
	db = n.db()
	for name, want := range map[string]string{
		"tidb_ddl_reorg_worker_cnt": "7", "tidb_ddl_enable_fast_reorg": "OFF", "tidb_ddl_reorg_batch_size": "32",
	} {
		require.Equal(t, [][]string{{name, want}}, queryAll(t, db, "SHOW GLOBAL VARIABLES LIKE '"+name+"'"))
	}
}
