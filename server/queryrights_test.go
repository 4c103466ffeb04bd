package server

import (
	"archive/zip"
	"bytes"
	"database/sql"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// connectAs connects as a user, over one connection.
func connectAs(t *testing.T, s *Server, user, schema string) *sql.DB {
	t.Helper()
	cfg := clientConfig(s)
	cfg.User, cfg.DBName = user, schema
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestQueriesInsideStatementsNeedRights: no query inside of a statement reads a table that its user may not read, wherever it
// stands: neither its result nor an error shows a value. UUID_TO_BIN is one of many functions whose errors show their arguments.
func TestQueriesInsideStatementsNeedRights(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	root := connect(t, s)
	exec(t, root, "CREATE DATABASE mine", "CREATE DATABASE other", "CREATE TABLE other.secret (a INT, s VARCHAR(100))", "INSERT INTO other.secret VALUES (7, 'topsecret')",
		"CREATE TABLE mine.t (a INT PRIMARY KEY, b INT)", "INSERT INTO mine.t VALUES (1, 1)", "CREATE SEQUENCE mine.seq", "CREATE VIEW mine.v AS SELECT COUNT(*) AS n FROM other.secret",
		"CREATE USER u", "GRANT ALL ON mine.* TO u", "GRANT CREATE TEMPORARY TABLES ON other.* TO u", "CREATE USER admin", "GRANT SUPER ON *.* TO admin", "GRANT SELECT ON mysql.* TO admin")
	u, admin := connectAs(t, s, "u", "mine"), connectAs(t, s, "admin", "")
	const leak = "(SELECT UUID_TO_BIN(s) FROM other.secret LIMIT 1)"
	denied := func(db *sql.DB, query string) {
		t.Helper()
		rows, err := db.Query(query)
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			_ = rows.Close()
		}
		var sqlErr *mysql.MySQLError
		require.ErrorAs(t, err, &sqlErr, query)
		require.EqualValues(t, 1142, sqlErr.Number, "%s: %s", query, sqlErr.Message)
		require.NotContains(t, sqlErr.Message, "topsecret", query)
	}
	for _, query := range []string{
		"SELECT Q", "SELECT 1 FROM t WHERE a = Q", "SELECT * FROM t ORDER BY Q", "SELECT a FROM t GROUP BY a, Q", "SELECT a FROM t HAVING Q", "SELECT * FROM t x JOIN t y ON x.a = Q",
		"SELECT SUM(a) OVER (ORDER BY Q) FROM t", "SELECT SUM(a) OVER w FROM t WINDOW w AS (ORDER BY Q)", "SELECT IF(1, Q, 2)", "SELECT CASE WHEN Q THEN 1 END",
		"SELECT * FROM (SELECT Q) x", "SELECT (SELECT * FROM (SELECT UUID_TO_BIN(s) FROM other.secret) x)", "SELECT (SELECT 1 UNION SELECT UUID_TO_BIN(s) FROM other.secret)",
		"SELECT 1 UNION SELECT Q", "(SELECT 1) UNION (SELECT Q) ORDER BY 1", "SELECT 1 EXCEPT SELECT Q", "SELECT (TABLE other.secret)", "SELECT * FROM t WHERE (a, b) = (TABLE other.secret)",
		"SELECT * FROM t WHERE EXISTS (SELECT 1 FROM other.secret WHERE UUID_TO_BIN(s))", "SELECT * FROM t WHERE a IN Q", "SELECT * FROM t WHERE a > ALL Q", "SELECT * FROM t WHERE (a, b) = (SELECT UUID_TO_BIN(s), 1 FROM other.secret)",
		"SELECT (SELECT MAX(x.a) FROM t x JOIN other.secret y ON UUID_TO_BIN(y.s))", "SELECT (SELECT a FROM other.secret x FOR UPDATE OF x)",
		"SELECT * FROM t AS OF TIMESTAMP Q", "START TRANSACTION READ ONLY AS OF TIMESTAMP Q", "SET TRANSACTION READ ONLY AS OF TIMESTAMP Q",
		"WITH c AS (SELECT UUID_TO_BIN(s) AS x FROM other.secret) SELECT (SELECT x FROM c)", "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + Q FROM c) SELECT * FROM c",
		"INSERT INTO t (a, b) VALUES (2, (SELECT a FROM other.secret))", "INSERT INTO t SET a = 2, b = (SELECT a FROM other.secret)", "REPLACE INTO t (a, b) VALUES (2, (SELECT a FROM other.secret))",
		"INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE b = Q", "INSERT INTO t (a) SELECT Q", "INSERT INTO t (a, b) VALUES (2, (SELECT COUNT(*) FROM mysql.user))",
		"UPDATE t SET b = Q", "UPDATE t SET b = 1 WHERE a = Q", "UPDATE t SET b = 1 ORDER BY Q LIMIT 1", "DELETE FROM t WHERE a = Q", "DELETE FROM t ORDER BY Q LIMIT 1", "DELETE t FROM t JOIN t x WHERE Q",
		"DELETE t FROM t JOIN other.secret x ON x.a = 7", "DELETE t FROM t, (SELECT * FROM other.secret) x", "DELETE FROM t USING t JOIN t y JOIN other.secret x USING (a)",
		"WITH c AS (SELECT UUID_TO_BIN(s) AS x FROM other.secret) UPDATE t SET b = (SELECT x FROM c)", "WITH c AS (SELECT UUID_TO_BIN(s) AS x FROM other.secret) DELETE FROM t WHERE a = (SELECT x FROM c)",
		"BATCH ON a LIMIT 1 DELETE FROM t WHERE b = Q", "BATCH ON a LIMIT 1 DRY RUN DELETE FROM t WHERE b = Q", "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a, @b) SET b = Q",
		"DO Q", "SET @x = Q", "SET @y = 5, @z = Q", "SELECT @z := Q", "SET SESSION max_execution_time = Q", "SET sql_mode = Q",
		"SHOW TABLES WHERE Q", "SHOW TABLES LIKE Q", "SHOW COLUMNS FROM t WHERE Q", "SHOW VARIABLES WHERE Value = Q", "SHOW WARNINGS WHERE Q", "SHOW TABLE t REGIONS WHERE Q", "SHOW STATS_META WHERE Q",
		"CREATE VIEW w AS SELECT Q", "CREATE VIEW w AS WITH c AS (SELECT UUID_TO_BIN(s) AS x FROM other.secret) SELECT (SELECT x FROM c)",
		"SPLIT TABLE t BY (Q)", "SPLIT TABLE t BETWEEN (Q) AND (100000) REGIONS 2", "ANALYZE TABLE t; SELECT Q",
		"EXPLAIN SELECT Q", "EXPLAIN ANALYZE SELECT Q", "EXPLAIN FORMAT = 'brief' SELECT Q", "DESC SELECT Q", "TRACE SELECT Q", "TRACE FORMAT = 'log' SELECT Q", "TRACE PLAN SELECT Q",
		"PLAN REPLAYER DUMP EXPLAIN SELECT Q", "PLAN REPLAYER DUMP WITH STATS AS OF TIMESTAMP Q EXPLAIN SELECT * FROM t", "PREPARE p FROM 'SELECT Q'", "PREPARE p FROM @text",
		"CREATE TABLE n (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (Q))", "CREATE TABLE n (a INT, CHECK (a > Q))", "CREATE TABLE n (a INT, b INT AS (Q))",
		// What WITH names in one place is a table in others.
		"WITH secret AS (SELECT UUID_TO_BIN(s) FROM other.secret) SELECT 1", "SELECT (WITH secret AS (SELECT 1) SELECT * FROM secret), (SELECT UUID_TO_BIN(s) FROM secret)",
		"WITH secret AS (SELECT (SELECT UUID_TO_BIN(s) FROM secret) AS x) SELECT x FROM secret", "WITH RECURSIVE c AS (SELECT (SELECT UUID_TO_BIN(s) FROM secret)), secret AS (SELECT 1) SELECT * FROM c",
	} {
		query = strings.ReplaceAll(query, "Q", leak)
		if strings.Contains(query, "secret AS (SELECT") { // a session can say that its schema is one in which its user has no right
			exec(t, u, `SET SESSION_STATES '{"current-db": "other"}'`)
		}
		exec(t, u, "SET @text = 'SELECT "+leak+"'")
		if text, found := strings.CutPrefix(query, "ANALYZE TABLE t; "); found { // what is inside of prepared statements
			_, err := u.Prepare(text)
			require.ErrorContains(t, err, "1142", query)
			continue
		}
		denied(u, query)
		exec(t, u, `SET SESSION_STATES '{"current-db": "mine"}'`)
	}
	denied(admin, "ADMIN SHOW DDL JOBS WHERE "+leak)
	denied(admin, "QUERY WATCH ADD ACTION KILL SQL TEXT EXACT TO "+leak)
	denied(admin, "QUERY WATCH ADD ACTION KILL SQL TEXT PLAN TO \""+"SELECT "+leak+"\"")
	exec(t, admin, "SET @text = 'SELECT "+leak+"'")
	denied(admin, "QUERY WATCH ADD ACTION KILL SQL TEXT PLAN TO @text")
	_, err := admin.Exec("QUERY WATCH ADD ACTION KILL SQL TEXT PLAN TO CONCAT(@text, '')")
	require.ErrorContains(t, err, "1210")
	denied(admin, "CALIBRATE RESOURCE START_TIME "+leak)
	denied(admin, "RECOMMEND INDEX RUN FOR 'SELECT * FROM mysql.user WHERE user = "+leak+"'")
	var n int
	require.NoError(t, root.QueryRow("SELECT COUNT(*) FROM mine.t").Scan(&n))
	require.Equal(t, 1, n)

	// What the user may read, and what is no table, works.
	for _, query := range []string{
		"SELECT (SELECT MAX(a) FROM t), (SELECT MAX(x.a) FROM mine.t x FOR UPDATE), (SELECT n FROM v), (SELECT COUNT(*) FROM information_schema.tables), (SELECT 1)",
		"WITH c AS (SELECT 1 AS x), d AS (SELECT x FROM c) SELECT (SELECT x FROM d), (SELECT x FROM c)", "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT (SELECT MAX(n) FROM c)",
		"WITH c AS (SELECT 1 AS x) SELECT (WITH d AS (SELECT x FROM c) SELECT x FROM d)", "WITH c AS (SELECT 1 AS x) UPDATE t SET b = (SELECT x FROM c)", "WITH c AS (SELECT 9 AS x) DELETE FROM t WHERE a = (SELECT x FROM c)",
		"WITH c AS (SELECT 5 AS x) SELECT x FROM c UNION SELECT (SELECT x FROM c)", "(WITH c AS (SELECT 5 AS x) SELECT (SELECT x FROM c)) UNION SELECT 1", "INSERT INTO t WITH c AS (SELECT 5 AS x) SELECT (SELECT x FROM c), 1",
		"SELECT (SELECT NEXTVAL(seq))", "PREPARE p FROM 'SELECT (SELECT MAX(a) FROM t)'", "EXECUTE p", "INSERT INTO t VALUES ((SELECT MAX(a) + 1 FROM t AS x), 1)",
		"CREATE TEMPORARY TABLE other.tmp (a INT)", "INSERT INTO other.tmp VALUES (1)", "SELECT (SELECT a FROM other.tmp)",
	} {
		exec(t, u, query)
	}
	// A prepared statement asks when it is executed, too.
	exec(t, root, "GRANT SELECT ON other.* TO u")
	exec(t, u, "PREPARE q FROM 'SELECT "+leak[:len(leak)-1]+" OFFSET 1)'")
	prepared, err := u.Prepare("SELECT (SELECT UUID_TO_BIN(s) FROM other.secret WHERE a = ?)")
	require.NoError(t, err)
	defer prepared.Close()
	exec(t, u, "EXECUTE q")
	exec(t, root, "REVOKE SELECT ON other.* FROM u")
	denied(u, "EXECUTE q")
	_, err = prepared.Query(7)
	require.ErrorContains(t, err, "1142")
}

// TestPlansOfFilesPassNoGuard: PLAN REPLAYER executes what a client's file has as its client may, and puts no text into statements
// of TiDB's that is more than a digest.
func TestPlansOfFilesPassNoGuard(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	root := connectAs(t, s, "root", "")
	exec(t, root, "CREATE DATABASE mine", "CREATE TABLE mine.t (a INT)")
	plan := func(statement string) (name string) {
		var file bytes.Buffer
		z := zip.NewWriter(&file)
		f, err := z.Create("schema/mine.t.schema.txt")
		require.NoError(t, err)
		_, err = io.WriteString(f, "CREATE DATABASE IF NOT EXISTS mine;USE mine;"+statement)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		mysql.RegisterReaderHandler("plan", func() io.Reader { return bytes.NewReader(file.Bytes()) })
		return "Reader::plan"
	}
	_, err := root.Exec("PLAN REPLAYER LOAD '" + plan("ALTER TABLE mysql.fastddl_ddl_record ADD COLUMN x INT") + "'")
	require.ErrorContains(t, err, "1142")
	exec(t, root, "PLAN REPLAYER LOAD '"+plan("CREATE TABLE mine.loaded (a INT)")+"'", "SELECT * FROM mine.loaded")
	for _, query := range []string{
		`PLAN REPLAYER CAPTURE 'x' "y' or (select uuid_to_bin(user) from mysql.user limit 1) or '1"`,
		`PLAN REPLAYER CAPTURE REMOVE "x' or '1" '*'`,
		`CREATE SESSION BINDING FROM HISTORY USING PLAN DIGEST "x' union select 1 -- "`,
		"CREATE SESSION BINDING FROM HISTORY USING PLAN DIGEST @d",
		"DROP SESSION BINDING FOR SQL DIGEST @d",
	} {
		exec(t, root, `SET @d = "abc' or '1"`)
		_, err := root.Exec(query)
		require.ErrorContains(t, err, "1210", query)
	}
	exec(t, root, "PLAN REPLAYER CAPTURE '4e3159169cc63c14b139a4e7d72eae1759875c9a9581f94bb2079aae961189cb' '*'", "PLAN REPLAYER CAPTURE REMOVE '4e3159169cc63c14b139a4e7d72eae1759875c9a9581f94bb2079aae961189cb' '*'")
}
