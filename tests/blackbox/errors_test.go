package blackbox

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

const pollInterval = 20 * time.Millisecond

// requireCode checks an error's number, SQLSTATE and text.
func requireCode(t *testing.T, err error, number uint16, state, text string) {
	t.Helper()
	var e *mysql.MySQLError
	require.ErrorAs(t, err, &e)
	require.Equal(t, number, e.Number, "%v", err)
	require.Equal(t, state, string(e.SQLState[:]), "%v", err)
	require.Contains(t, e.Message, text)
}

func (n *node) openAs(user, password, database string) *sql.DB {
	n.t.Helper()
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", n.addr, user, password, database
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(n.t, err)
	db := sql.OpenDB(connector)
	n.t.Cleanup(func() { db.Close() })
	return db
}

func TestBadInput(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	var columns []string
	for i := range 17 {
		columns = append(columns, "c"+string(rune('a'+i)))
	}
	mustExec(t, db, "CREATE TABLE e (id INT PRIMARY KEY, a INT NOT NULL, s VARCHAR(20), l VARCHAR(4000), b BLOB, x TEXT, t TINYINT, KEY a (a), UNIQUE KEY s (s))")
	mustExec(t, db, "CREATE TABLE wide ("+strings.Join(columns, " INT, ")+" INT)")
	mustExec(t, db, "INSERT INTO e (id, a, s) VALUES (1, 1, 'one')")

	for _, tc := range []struct {
		query  string
		number uint16
		state  string
		text   string
	}{
		{"SELEC 1", 1064, "42000", "You have an error in your SQL syntax"},
		{"ALTER TABLE e ADD INDEXX (a", 1064, "42000", "You have an error in your SQL syntax"},
		{"SELECT nope FROM e", 1054, "42S22", "Unknown column 'nope' in 'field list'"},
		{"SELECT id FROM e WHERE nope = 1", 1054, "42S22", "Unknown column 'nope' in 'where clause'"},
		{"SELECT * FROM nope", 1146, "42S02", "Table 'test.nope' doesn't exist"},
		{"SELECT * FROM nope.t", 1146, "42S02", "Table 'nope.t' doesn't exist"},
		{"USE nope", 1049, "42000", "Unknown database 'nope'"},
		{"ALTER TABLE nope ADD INDEX (a)", 1146, "42S02", "Table 'test.nope' doesn't exist"},
		{"ALTER TABLE e ADD INDEX a (id)", 1061, "42000", "Duplicate key name 'a'"},
		{"CREATE INDEX a ON e (id)", 1061, "42000", "Duplicate key name 'a'"},
		{"ALTER TABLE e ADD INDEX n (nope)", 1072, "42000", "column does not exist: nope"},
		{"ALTER TABLE e DROP INDEX nope", 1091, "42000", "nope"},
		{"ALTER TABLE wide ADD INDEX w (" + strings.Join(columns, ", ") + ")", 1070, "42000", "Too many key parts specified; max 16 parts allowed"},
		{"ALTER TABLE e ADD INDEX l (l)", 1071, "42000", "max key length is 3072 bytes"},
		{"ALTER TABLE e ADD INDEX p (a(4))", 1089, "HY000", "Incorrect prefix key"},
		{"ALTER TABLE e ADD INDEX p (s(21))", 1089, "HY000", "Incorrect prefix key"},
		{"ALTER TABLE e ADD INDEX b (b)", 1170, "42000", "BLOB/TEXT column 'b' used in key specification without a key length"},
		{"ALTER TABLE e ADD INDEX x (x)", 1170, "42000", "BLOB/TEXT column 'x' used in key specification without a key length"},
		{"SET GLOBAL tidb_ddl_enable_fast_reorg = 'maybe'", 1231, "42000", "Variable 'tidb_ddl_enable_fast_reorg' can't be set to the value of 'maybe'"},
		{"SET GLOBAL tidb_ddl_reorg_worker_cnt = 'many'", 1232, "42000", "Incorrect argument type to variable 'tidb_ddl_reorg_worker_cnt'"},
		{"SET GLOBAL no_such_variable = 1", 1193, "HY000", "Unknown system variable 'no_such_variable'"},
		{"INSERT INTO e (id, a) VALUES (1, 1)", 1062, "23000", "Duplicate entry '1' for key 'e.PRIMARY'"},
		{"INSERT INTO e (id, a, s) VALUES (2, 1, 'one')", 1062, "23000", "Duplicate entry 'one' for key 'e.s'"},
		{"INSERT INTO e (id, a) VALUES (3, NULL)", 1048, "23000", "Column 'a' cannot be null"},
		{"INSERT INTO e (id) VALUES (3)", 1364, "HY000", "Field 'a' doesn't have a default value"},
		{"INSERT INTO e (id, a, t) VALUES (3, 1, 1000)", 1264, "22003", "Out of range value"},
		{"INSERT INTO e (id, a, s) VALUES (3, 1, REPEAT('x', 21))", 1406, "22001", "Data too long for column 's' at row 1"},
		{"INSERT INTO e (id, a) VALUES (3)", 1136, "21S01", "Column count doesn't match value count at row 1"},
		{"CREATE TABLE e (id INT)", 1050, "42S01", "Table 'test.e' already exists"},
		{"DROP TABLE nope", 1051, "42S02", "Unknown table 'test.nope'"},
		{"CREATE DATABASE test", 1007, "HY000", "Can't create database 'test'; database exists"},
		{"DROP DATABASE nope", 1008, "HY000", "Can't drop database 'nope'; database doesn't exist"},
		{"ALTER TABLE e ADD COLUMN a INT", 1060, "42S21", "Duplicate column name 'a'"},
		{"ALTER TABLE e DROP COLUMN nope", 1091, "42000", "nope"},
		{"ADMIN CHECK TABLE nope", 1146, "42S02", "Table 'test.nope' doesn't exist"},
	} {
		t.Run(tc.query[:min(len(tc.query), 40)], func(t *testing.T) {
			_, err := db.Exec(tc.query)
			requireCode(t, err, tc.number, tc.state, tc.text)
		})
	}
	require.Equal(t, "1", value(t, db, "SELECT COUNT(*) FROM e"), "nothing of it had an effect")
	mustExec(t, db, "ADMIN CHECK TABLE e")
	require.Error(t, n.open("nope").Ping(), "an unknown database at connect")
}
