package tidbsuite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// variables are what mysql-tester sets in every session.
var variables = []string{
	"tidb_init_chunk_size=1", "tidb_max_chunk_size=32", "tidb_multi_statement_mode=1", "tidb_hash_join_concurrency=1",
	"tidb_enable_pseudo_for_outdated_stats=false", "tidb_enable_analyze_snapshot=1", "tidb_enable_clustered_index='int_only'",
}

// client is one connection of a test file.
type client struct {
	db   *sql.DB
	conn *sql.Conn
}

// connect opens a session as mysql-tester does.
func connect(ctx context.Context, addr, user, password, database string) (*client, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", addr, user, password, database
	cfg.Params = map[string]string{"time_zone": "'Asia/Shanghai'"}
	cfg.AllowAllFiles = true // LOAD STATS reads them
	cfg.MaxAllowedPacket = 64 << 20
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	c := &client{db, conn}
	for _, v := range variables {
		if _, err := conn.ExecContext(ctx, "SET @@"+v); err != nil {
			c.close()
			return nil, fmt.Errorf("set %s: %w", v, err)
		}
	}
	return c, nil
}

func (c *client) close() {
	_ = c.conn.Close() // it may have been killed
	_ = c.db.Close()
}

// table is a result: of a statement without one it has no columns.
type table struct {
	columns []string
	types   []string
	rows    [][][]byte
}

// query executes a statement and reads all its rows.
func (c *client) query(ctx context.Context, statement string) (table, error) {
	var t table
	rows, err := c.conn.QueryContext(ctx, statement)
	if err != nil {
		return t, err
	}
	defer rows.Close()
	if t.columns, err = rows.Columns(); err != nil {
		return t, err
	}
	types, err := rows.ColumnTypes()
	if err != nil {
		return t, err
	}
	for _, typ := range types {
		t.types = append(t.types, typ.DatabaseTypeName())
	}
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			row := make([][]byte, len(t.columns))
			into := make([]any, len(row))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return t, err
			}
			t.rows = append(t.rows, row)
		}
	}
	return t, rows.Err()
}

// exec executes a statement that has no rows and returns how many it has changed.
func (c *client) exec(ctx context.Context, statement string) (affected int64, err error) {
	err = c.conn.Raw(func(raw any) error {
		result, err := raw.(driver.ExecerContext).ExecContext(ctx, statement, nil)
		if err != nil {
			return err
		}
		affected, err = result.RowsAffected()
		return err
	})
	return affected, err
}

// sort orders the rows by their bytes, NULL before the empty string.
func (t table) sort() {
	slices.SortFunc(t.rows, func(a, b [][]byte) int {
		for i := range a {
			if c := cmp.Or(bytes.Compare(a[i], b[i]), present(a[i])-present(b[i])); c != 0 {
				return c
			}
		}
		return 0
	})
}

func present(v []byte) int {
	if v == nil {
		return 0
	}
	return 1
}

// write renders the table: a line of names, then a line for each row.
func (t table) write(to *strings.Builder, replace []replacement) {
	to.WriteString(strings.Join(t.columns, "\t") + "\n")
	for _, row := range t.rows {
		for i, v := range row {
			if i > 0 {
				to.WriteByte('\t')
			}
			for _, r := range replace {
				v = r.pattern.ReplaceAll(v, []byte(r.with))
			}
			if v == nil {
				v = []byte("NULL")
			}
			to.Write(v)
		}
		to.WriteByte('\n')
	}
}
