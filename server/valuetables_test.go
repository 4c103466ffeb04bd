package server

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// answer is all that a query returns, as text, or its error.
func answer(t *testing.T, db interface {
	Query(string, ...any) (*sql.Rows, error)
}, query string) (string, error) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	var text strings.Builder
	for rows.Next() {
		values, targets := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		require.NoError(t, rows.Scan(targets...))
		for _, v := range values {
			text.Write(v)
			text.WriteByte(' ')
		}
		text.WriteByte('\n')
	}
	return text.String(), rows.Err()
}

// TestValuesOfRowsNeedSelectOnTheTable: the values that an index was not built for are shown to the statement's session, and to users
// who may SELECT from the table; users who may only read the system's tables see them nowhere.
func TestValuesOfRowsNeedSelectOnTheTable(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	root := connect(t, s)
	exec(t, root, "CREATE DATABASE shop", "CREATE DATABASE mine",
		"CREATE TABLE shop.t (a VARCHAR(20) PRIMARY KEY CLUSTERED, s VARCHAR(20), u VARCHAR(20), j JSON)",
		`INSERT INTO shop.t VALUES ('secret-1', 'secret-2', 'secret-3', '["secret-4"]'), ('secret-5', '12', 'secret-3', '[1]')`,
		"CREATE USER reader, owner, member", "CREATE ROLE r", "GRANT SELECT ON mysql.* TO reader, owner, member", "GRANT ALL ON mine.* TO reader",
		"GRANT INSERT, ALTER, INDEX ON shop.* TO reader", "GRANT SELECT ON shop.t TO owner", "GRANT SELECT ON shop.* TO r", "GRANT r TO member")
	for _, index := range []string{"INDEX i ((s + 1))", "UNIQUE INDEX i (u)", "INDEX i ((CAST(j AS SIGNED ARRAY)))"} {
		_, err := root.Exec("ALTER TABLE shop.t ADD " + index)
		require.ErrorContains(t, err, "rows listed in mysql.fastddl_ddl_errors, job ")
	}
	as := func(user string) *sql.DB {
		cfg := clientConfig(s)
		cfg.User, cfg.DBName = user, "mysql"
		connector, err := mysql.NewConnector(cfg)
		require.NoError(t, err)
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		return db
	}
	reader, owner, member := as("reader"), as("owner"), as("member")
	const list = "SELECT * FROM mysql.fastddl_ddl_errors"

	found, err := answer(t, root, list)
	require.NoError(t, err)
	for i := 1; i <= 5; i++ {
		require.Contains(t, found, fmt.Sprintf("secret-%d", i))
	}
	names, err := answer(t, root, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'mysql' AND table_name RLIKE 'fastddl|ddl'")
	require.NoError(t, err)
	require.Contains(t, names, "fastddl_ddl_errors")
	queries := []string{"ADMIN SHOW DDL JOBS", "ADMIN SHOW DDL", "SELECT * FROM information_schema.ddl_jobs", "EXECUTE p"}
	for _, table := range strings.Fields(names) {
		queries = append(queries, "SELECT * FROM mysql."+table)
	}
	exec(t, reader, "PREPARE p FROM '"+list+"'")
	for _, query := range queries {
		text, err := answer(t, reader, query)
		require.NotContains(t, text, "secret", query)
		if query == list || query == "EXECUTE p" {
			require.NoError(t, err)
			require.Contains(t, text, "? ?", query)
			require.Contains(t, text, "Duplicate entry '?' for key 't.i'", query)
		}
	}
	for table := range valueTables {
		if !strings.Contains(names, table) { // a cluster's
			continue
		}
		for _, query := range []string{
			"SELECT * FROM mysql.%s", "TABLE %s", "EXPLAIN ANALYZE SELECT * FROM %s", "PREPARE q FROM 'SELECT * FROM %s'", "SELECT (SELECT COUNT(*) FROM %s AS x)",
			"WITH x AS (SELECT * FROM %s) SELECT * FROM x", "CREATE VIEW mine.v AS SELECT * FROM mysql.%s",
			"CREATE DEFINER = root SQL SECURITY DEFINER VIEW mine.v AS SELECT * FROM mysql.%s",
		} {
			_, err := answer(t, reader, fmt.Sprintf(query, table))
			require.ErrorContains(t, err, "1142", "%s: "+query, table)
		}
	}

	found, err = answer(t, owner, list)
	require.NoError(t, err)
	require.Contains(t, found, "secret-2")
	found, err = answer(t, member, list)
	require.NoError(t, err)
	require.NotContains(t, found, "secret", "the role is not active")
	exec(t, member, "SET ROLE ALL")
	found, err = answer(t, member, list)
	require.NoError(t, err)
	require.Contains(t, found, "secret-2")
	exec(t, root, "REVOKE SELECT ON shop.t FROM owner")
	found, err = answer(t, owner, list)
	require.NoError(t, err)
	require.NotContains(t, found, "secret")
	exec(t, root, "GRANT SELECT ON *.* TO owner")
	found, err = answer(t, owner, list)
	require.NoError(t, err)
	require.Contains(t, found, "secret-2")
}
