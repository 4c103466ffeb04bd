package clients

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// TestGoSQLDriver uses the driver in both of its modes: parameters written into
// the text of a statement, and statements prepared by the server.
func TestGoSQLDriver(t *testing.T) {
	n := startServer(t)
	for mode, interpolate := range map[string]bool{"text": true, "prepared": false} {
		t.Run(mode, func(t *testing.T) {
			db := openMySQL(t, n, func(cfg *mysql.Config) { cfg.InterpolateParams = interpolate })
			c := goClient{n: n, db: db}
			t.Run("types", c.types)
			t.Run("index", c.index)
			t.Run("errors", c.errors)
			t.Run("transactions", c.transactions)
			t.Run("large", c.large)
			t.Run("interrupted", c.interrupted)
		})
	}
	t.Run("multi-statements", func(t *testing.T) { multiStatements(t, n) })
	t.Run("load data", func(t *testing.T) { loadData(t, n) })
	t.Run("accounts", func(t *testing.T) { accounts(t, n) })
	t.Run("compression", func(t *testing.T) {
		db := openMySQL(t, n, func(cfg *mysql.Config) { require.NoError(t, cfg.Apply(mysql.EnableCompression(true))) })
		c := goClient{n: n, db: db}
		c.types(t)
		c.large(t)
	})
}

// openMySQL connects to a database of the test's own.
func openMySQL(t *testing.T, n *servertest.Node, set func(*mysql.Config)) *sql.DB {
	t.Helper()
	name := newDatabase(t, n)
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", n.Addr, "root", name
	cfg.Logger = &mysql.NopLogger{} // statements that are interrupted are part of the test
	if set != nil {
		set(cfg)
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// newDatabase creates a database named after the test.
func newDatabase(t *testing.T, n *servertest.Node) string {
	t.Helper()
	name := "d_" + strings.ToLower(strings.NewReplacer("/", "_", "-", "_").Replace(t.Name()))
	admin := n.Open("")
	defer admin.Close()
	mustExec(t, admin, "DROP DATABASE IF EXISTS `"+name+"`")
	mustExec(t, admin, "CREATE DATABASE `"+name+"`")
	return name
}

func mustExec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.Exec(query, args...)
	require.NoError(t, err, "%.300s", query)
}

// text returns the only value of a result as text; NULL is "NULL".
func text(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	var value sql.NullString
	require.NoError(t, db.QueryRow(query, args...).Scan(&value), "%s", query)
	if !value.Valid {
		return "NULL"
	}
	return value.String
}

// goClient is one way of using the driver.
type goClient struct {
	n  *servertest.Node
	db *sql.DB
}

// types stores values of every type as parameters and reads the same.
func (c goClient) types(t *testing.T) {
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	when := time.Date(2024, 2, 29, 23, 59, 58, 45_678_000, time.UTC)
	for i, tc := range []struct {
		column string
		values []any  // each stored in turn
		want   []any  // nil if the same
		cast   string // reads the column, if not by its name
	}{
		{column: "TINYINT", values: []any{int64(-128), int64(127), nil}},
		{column: "SMALLINT UNSIGNED", values: []any{int64(0), int64(65535)}},
		{column: "MEDIUMINT", values: []any{int64(-8388608), int64(8388607)}},
		{column: "INT", values: []any{int64(math.MinInt32), int64(math.MaxInt32)}},
		{column: "BIGINT", values: []any{int64(math.MinInt64), int64(math.MaxInt64), nil}},
		{column: "BIGINT UNSIGNED", values: []any{uint64(math.MaxUint64), uint64(1 << 63)}, want: []any{"18446744073709551615", "9223372036854775808"}},
		{column: "FLOAT", values: []any{float64(-1.5), float64(0.25)}},
		{column: "DOUBLE", values: []any{math.MaxFloat64, -math.SmallestNonzeroFloat64 * (1 << 52), 0.1}},
		{column: "DECIMAL(65,30)", values: []any{"-12345678901234567890123456789012345.000000000000000000000000000001", "0.100000000000000000000000000000"}},
		{column: "BIT(64)", values: []any{[]byte{0x80, 0, 0, 0, 0, 0, 0, 1}}},
		{column: "CHAR(10) COLLATE utf8mb4_bin", values: []any{"näïve", ""}},
		{column: "VARCHAR(20)", values: []any{"日本語 😀 end ", nil, `quote ' back \ nul`}},
		{column: "VARCHAR(20) CHARACTER SET latin1", values: []any{"Ærø é ÿ"}},
		{column: "VARCHAR(20) CHARACTER SET gbk", values: []any{"中文"}},
		{column: "BINARY(4)", values: []any{[]byte{1, 2}}, want: []any{"\x01\x02\x00\x00"}},
		{column: "VARBINARY(300)", values: []any{bytes, []byte{}}},
		{column: "BLOB", values: []any{bytes, nil}},
		{column: "LONGTEXT", values: []any{strings.Repeat("é", 50_000)}},
		{column: "DATE", values: []any{"2024-02-29", "1000-01-01", "9999-12-31"}},
		{column: "DATETIME(6)", values: []any{when, "0001-01-01 00:00:00.000001"},
			want: []any{"2024-02-29 23:59:58.045678", "0001-01-01 00:00:00.000001"}},
		{column: "TIMESTAMP(6) NULL", values: []any{when, nil}, want: []any{"2024-02-29 23:59:58.045678", nil}},
		{column: "TIME(6)", values: []any{"-838:59:58.000012", "00:00:00.045678"}},
		{column: "YEAR", values: []any{int64(1901), int64(2155)}},
		{column: "ENUM('a','b','ü')", values: []any{"ü", nil}},
		{column: "SET('x','y','z')", values: []any{"x,z", ""}},
		{column: "JSON", values: []any{`{"a": [1, 9007199254740993, null, "ß"]}`, nil}},
	} {
		t.Run(tc.column, func(t *testing.T) {
			table := fmt.Sprintf("types%d", i)
			mustExec(t, c.db, fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY AUTO_INCREMENT, c %s)", table, tc.column))
			for j, value := range tc.values {
				want := value
				if tc.want != nil {
					want = tc.want[j]
				}
				res, err := c.db.Exec(fmt.Sprintf("INSERT INTO %s (c) VALUES (?)", table), value)
				require.NoError(t, err)
				id, err := res.LastInsertId()
				require.NoError(t, err)
				got := text(t, c.db, fmt.Sprintf("SELECT c FROM %s WHERE id = ?", table), id)
				requireText(t, want, got)
			}
		})
	}
}

// requireText compares a value with its text; floats by value, since the two
// protocols may print them in different ways.
func requireText(t *testing.T, want any, got string) {
	t.Helper()
	switch w := want.(type) {
	case nil:
		require.Equal(t, "NULL", got)
	case []byte:
		require.Equal(t, string(w), got)
	case float64:
		var g float64
		_, err := fmt.Sscan(got, &g)
		require.NoError(t, err)
		require.Equal(t, w, g)
	default:
		require.Equal(t, fmt.Sprint(w), got)
	}
}

// index builds indexes on rows that are there and finds rows through them.
func (c goClient) index(t *testing.T) {
	mustExec(t, c.db, "CREATE TABLE idx (id BIGINT PRIMARY KEY AUTO_INCREMENT, k INT, s VARCHAR(40), v JSON)")
	for i := range 20 {
		rows := make([]string, 100)
		args := make([]any, 0, 300)
		for j := range rows {
			k := i*100 + j
			rows[j] = "(?, ?, ?)"
			args = append(args, k, fmt.Sprintf("Größe %d", k), fmt.Sprintf(`{"k": %d}`, k))
		}
		mustExec(t, c.db, "INSERT INTO idx (k, s, v) VALUES "+strings.Join(rows, ", "), args...)
	}
	mustExec(t, c.db, "ALTER TABLE idx ADD INDEX k (k), ADD UNIQUE INDEX s (s)")
	mustExec(t, c.db, "CREATE INDEX e ON idx ((CAST(v->'$.k' AS SIGNED)))")
	mustExec(t, c.db, "ADMIN CHECK TABLE idx")
	require.Equal(t, "Größe 1234", text(t, c.db, "SELECT s FROM idx USE INDEX (k) WHERE k = ?", 1234))
	require.Equal(t, "77", text(t, c.db, "SELECT k FROM idx FORCE INDEX (s) WHERE s = ?", "Größe 77"))
	require.Equal(t, "1999", text(t, c.db, "SELECT MAX(k) FROM idx"))

	mustExec(t, c.db, "INSERT INTO idx (k, s) VALUES (5, 'twice')")
	_, err := c.db.Exec("ALTER TABLE idx ADD UNIQUE INDEX uk (k)")
	requireMySQLError(t, err, 1062, "23000")
	mustExec(t, c.db, "ALTER TABLE idx DROP INDEX k, RENAME INDEX s TO renamed, ADD COLUMN d DATETIME(3) DEFAULT '2020-01-01 00:00:00.010'")
	require.Equal(t, "2020-01-01 00:00:00.010", text(t, c.db, "SELECT d FROM idx WHERE k = ?", 7))

	statement, err := c.db.Prepare("SELECT * FROM idx WHERE k = ?")
	require.NoError(t, err)
	defer statement.Close()
	for _, alter := range []string{"ADD COLUMN later INT DEFAULT 5", "DROP COLUMN later"} {
		mustExec(t, c.db, "ALTER TABLE idx "+alter)
		rows, err := statement.Query(7)
		require.NoError(t, err, "a statement prepared before %s", alter)
		require.True(t, rows.Next())
		require.NoError(t, rows.Close())
	}
}

// errors are the numbers and states that applications act on.
func (c goClient) errors(t *testing.T) {
	mustExec(t, c.db, "CREATE TABLE parent (id INT PRIMARY KEY)")
	mustExec(t, c.db, `CREATE TABLE e (id INT PRIMARY KEY, n TINYINT NOT NULL, s VARCHAR(3), p INT, FOREIGN KEY (p) REFERENCES parent (id))`)
	mustExec(t, c.db, "INSERT INTO parent VALUES (1)")
	mustExec(t, c.db, "INSERT INTO e VALUES (1, 1, 'a', 1)")
	for _, tc := range []struct {
		query  string
		args   []any
		number uint16
		state  string
	}{
		{"INSERT INTO e (id, n) VALUES (?, 1)", []any{1}, 1062, "23000"},
		{"INSERT INTO e (id, n) VALUES (?, ?)", []any{2, nil}, 1048, "23000"},
		{"INSERT INTO e (id, n) VALUES (?, ?)", []any{2, 1000}, 1264, "22003"},
		{"INSERT INTO e (id, n, s) VALUES (?, 1, ?)", []any{2, "abcd"}, 1406, "22001"},
		{"INSERT INTO e (id, n, p) VALUES (2, 1, ?)", []any{99}, 1452, "23000"},
		{"DELETE FROM parent WHERE id = ?", []any{1}, 1451, "23000"},
		{"SELECT * FROM missing", nil, 1146, "42S02"},
		{"SELECT missing FROM e", nil, 1054, "42S22"},
		{"SELEC 1", nil, 1064, "42000"},
		{"CREATE TABLE e (a INT)", nil, 1050, "42S01"},
		{"USE missing", nil, 1049, "42000"},
		{"ALTER TABLE e ADD INDEX i (missing)", nil, 1072, "42000"},
		{"ALTER TABLE e DROP INDEX missing", nil, 1091, "42000"},
		{"INSERT INTO e (id, n) VALUES (?)", []any{1}, 1136, "21S01"},
	} {
		_, err := c.db.Exec(tc.query, tc.args...)
		requireMySQLError(t, err, tc.number, tc.state)
	}
	require.Equal(t, "1", text(t, c.db, "SELECT COUNT(*) FROM e"))
}

func requireMySQLError(t *testing.T, err error, number uint16, state string) {
	t.Helper()
	var e *mysql.MySQLError
	require.ErrorAs(t, err, &e)
	require.Equal(t, number, e.Number, "%s", e.Message)
	require.Equal(t, state, string(e.SQLState[:]), "%s", e.Message)
}

func (c goClient) transactions(t *testing.T) {
	ctx := context.Background()
	mustExec(t, c.db, "CREATE TABLE tx (id INT PRIMARY KEY, v INT)")
	mustExec(t, c.db, "INSERT INTO tx VALUES (1, 10), (2, 20)")

	tx, err := c.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec("UPDATE tx SET v = v + ? WHERE id = 1", 5)
	require.NoError(t, err)
	require.Equal(t, "10", text(t, c.db, "SELECT v FROM tx WHERE id = 1"), "what is not committed")
	require.NoError(t, tx.Rollback())
	require.Equal(t, "10", text(t, c.db, "SELECT v FROM tx WHERE id = 1"))

	a, err := c.db.Begin()
	require.NoError(t, err)
	_, err = a.Exec("UPDATE tx SET v = 11 WHERE id = ?", 1)
	require.NoError(t, err)
	b, err := c.db.Begin()
	require.NoError(t, err)
	_, err = b.Exec("SET innodb_lock_wait_timeout = 1")
	require.NoError(t, err)
	_, err = b.Exec("UPDATE tx SET v = 12 WHERE id = ?", 1)
	requireMySQLError(t, err, 1205, "HY000")
	_, err = b.Exec("SET innodb_lock_wait_timeout = 50")
	require.NoError(t, err)
	_, err = b.Exec("UPDATE tx SET v = 21 WHERE id = ?", 2)
	require.NoError(t, err)

	// Each waits for what the other has locked; one of the two is chosen.
	waiting := make(chan error, 1)
	go func() {
		_, err := a.Exec("UPDATE tx SET v = 22 WHERE id = ?", 2)
		waiting <- err
	}()
	_, errB := b.Exec("UPDATE tx SET v = 12 WHERE id = ?", 1)
	if errB != nil {
		requireMySQLError(t, errB, 1213, "40001")
	}
	require.NoError(t, b.Rollback())
	if errA := <-waiting; errA != nil {
		requireMySQLError(t, errA, 1213, "40001")
		require.NoError(t, errB, "both were chosen")
	} else {
		require.Error(t, errB, "neither was chosen")
	}
	require.NoError(t, a.Rollback())

	// READ ONLY is accepted, without effect, where the session says so.
	conn, err := c.db.Conn(ctx)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(ctx, "SET tidb_enable_noop_functions = ON")
	require.NoError(t, err)
	readOnly, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	var count int
	require.NoError(t, readOnly.QueryRow("SELECT COUNT(*) FROM tx").Scan(&count))
	require.Equal(t, 2, count)
	require.NoError(t, readOnly.Commit())
}

// large sends and reads what takes several packets, and many rows.
func (c goClient) large(t *testing.T) {
	value := strings.Repeat("0123456789abcdef", 20<<20/16)
	var length int
	var back string
	require.NoError(t, c.db.QueryRow("SELECT LENGTH(?), ?", value, value).Scan(&length, &back))
	require.Equal(t, len(value), length)
	require.True(t, back == value, "a value of 20 MiB came back different")

	for _, size := range []int{0, 1, 250, 251, 1<<16 - 1, 1 << 16, 1<<24 - 2, 1<<24 - 1, 1 << 24} {
		require.NoError(t, c.db.QueryRow("SELECT REPEAT('x', ?)", size).Scan(&back), "%d bytes", size)
		require.Len(t, back, size)
	}

	rows, err := c.db.Query("WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 999) " +
		"SELECT a.i * 100 + b.i AS n, REPEAT('y', 50) FROM d a JOIN d b WHERE b.i < 100 ORDER BY n")
	require.NoError(t, err)
	defer rows.Close()
	next := 0
	for rows.Next() {
		var n int
		var filler string
		require.NoError(t, rows.Scan(&n, &filler))
		require.Equal(t, next, n)
		next++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 100_000, next)
}

// interrupted ends statements from outside, and the server's own way.
func (c goClient) interrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := c.db.ExecContext(ctx, "SELECT SLEEP(?)", 600)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 5*time.Minute)

	conn, err := c.db.Conn(context.Background())
	require.NoError(t, err)
	defer conn.Close()
	var id int64
	require.NoError(t, conn.QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&id))
	done := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(context.Background(), "SELECT COUNT(*) FROM information_schema.columns a JOIN information_schema.columns b JOIN "+
			"information_schema.columns c ON a.data_type <> b.data_type AND b.data_type <> c.data_type")
		done <- err
	}()
	require.Eventually(t, func() bool {
		// Killed before it runs, a statement of TiDB takes its connection along.
		return text(t, c.db, fmt.Sprintf("SELECT COUNT(*) FROM information_schema.processlist WHERE id = %d AND time > 0", id)) == "1"
	}, 2*time.Minute, 50*time.Millisecond)
	_, err = c.db.Exec(fmt.Sprintf("KILL QUERY %d", id))
	require.NoError(t, err)
	requireMySQLError(t, <-done, 1317, "70100")
	// Whether the connection lives on depends on TiDB: see docs/upstream-bugs.md on KILL QUERY.
}

// multiStatements sends several statements at once and reads their results.
func multiStatements(t *testing.T, n *servertest.Node) {
	db := openMySQL(t, n, func(cfg *mysql.Config) { cfg.MultiStatements = true })
	mustExec(t, db, "CREATE TABLE m (id INT PRIMARY KEY); INSERT INTO m VALUES (1), (2); ALTER TABLE m ADD COLUMN v INT DEFAULT 3; "+
		"ALTER TABLE m ADD INDEX v (v)")
	rows, err := db.Query("SELECT SUM(id) FROM m; INSERT INTO m (id) VALUES (5); SELECT 'a;b' /* ; */, SUM(id) FROM m")
	require.NoError(t, err)
	defer rows.Close()
	var sums []string
	for {
		columns, err := rows.Columns()
		require.NoError(t, err)
		for rows.Next() {
			values := make([]string, len(columns))
			dest := make([]any, len(columns))
			for i := range values {
				dest[i] = &values[i]
			}
			require.NoError(t, rows.Scan(dest...))
			sums = append(sums, strings.Join(values, " "))
		}
		if !rows.NextResultSet() {
			break
		}
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []string{"3", "a;b 8"}, sums)

	_, err = db.Exec("INSERT INTO m (id) VALUES (6); INSERT INTO m (id) VALUES (6); INSERT INTO m (id) VALUES (7)")
	requireMySQLError(t, err, 1062, "23000")
	require.Equal(t, "4", text(t, db, "SELECT COUNT(*) FROM m"), "what follows the failed statement must not have run")

	single := openMySQL(t, n, nil)
	_, err = single.Exec("DO 1; DO 2")
	require.Error(t, err, "a client that did not ask for it must not send several statements")
}

func loadData(t *testing.T, n *servertest.Node) {
	db := openMySQL(t, n, nil)
	mustExec(t, db, "CREATE TABLE l (id INT PRIMARY KEY, s VARCHAR(20), d DECIMAL(5,2))")
	var file strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&file, "%d\tzeile %d é\t\\N\n", i, i)
	}
	mysql.RegisterReaderHandler("rows", func() io.Reader { return strings.NewReader(file.String()) })
	defer mysql.DeregisterReaderHandler("rows")
	res, err := db.Exec("LOAD DATA LOCAL INFILE 'Reader::rows' INTO TABLE l")
	require.NoError(t, err)
	affected, err := res.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 5000, affected)
	require.Equal(t, "zeile 4321 é", text(t, db, "SELECT s FROM l WHERE id = 4321"))
	require.Equal(t, "5000", text(t, db, "SELECT COUNT(*) FROM l WHERE d IS NULL"))
	mustExec(t, db, "ALTER TABLE l ADD INDEX s (s)")
	mustExec(t, db, "ADMIN CHECK TABLE l")
}

// accounts logs in by password.
func accounts(t *testing.T, n *servertest.Node) {
	admin := n.Open("test")
	login := func(user, password string) *sql.DB {
		cfg := mysql.NewConfig()
		cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", n.Addr, user, password, "test"
		cfg.Logger = &mysql.NopLogger{}
		connector, err := mysql.NewConnector(cfg)
		require.NoError(t, err)
		db := sql.OpenDB(connector)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	mustExec(t, admin, "CREATE USER native IDENTIFIED WITH mysql_native_password BY 'p@ss ü'")
	mustExec(t, admin, "GRANT SELECT ON test.* TO native")
	requireMySQLError(t, login("native", "wrong").Ping(), 1045, "28000")
	requireMySQLError(t, login("nobody", "p@ss ü").Ping(), 1045, "28000")
	db := login("native", "p@ss ü")
	require.Equal(t, "native@%", text(t, db, "SELECT CURRENT_USER()"))
	_, err := db.Exec("CREATE TABLE forbidden (a INT)")
	requireMySQLError(t, err, 1142, "42000")

	// This plugin needs TLS; without it the client is refused, not kept waiting.
	mustExec(t, admin, "CREATE USER sha2 IDENTIFIED WITH caching_sha2_password BY 'p@ss'")
	require.Error(t, login("sha2", "wrong").Ping())
	require.NoError(t, db.Ping())
}
