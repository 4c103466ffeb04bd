package peer

import (
	"context"
	"fmt"
	"os"

	"fastddl/sbtest"
)

// Loader is a server that loads a file on its machine into a table with two secondary indexes.
type Loader interface {
	Server
	// LoadStatement is what it runs.
	LoadStatement() string
	// CreateTable makes the empty table.
	CreateTable(ctx context.Context) error
	// LoadFile loads a CSV file, and returns when the table with its primary key and both indexes is
	// there for all, and on disk.
	LoadFile(ctx context.Context, file string) error
	// CountRows counts the rows of the table.
	CountRows(ctx context.Context) (int, error)
	// Remove removes the store of the server, which does not run.
	Remove() error
}

// Loaders are all servers.
func Loaders(opts Options) []Loader {
	return []Loader{newFastDDL(opts), newPostgres(opts), newMariaDB(opts)}
}

// loadIndexes are the secondary indexes of the table, in SQL that MySQL and its kin understand.
const loadIndexes = " ADD INDEX k_1 (k), ADD INDEX c_1 (c)"

// createIndexed makes the table with its indexes.
func (c mysqlClient) createIndexed(ctx context.Context) error {
	return c.exec(ctx, sbtest.CreateSQL, "ALTER TABLE "+sbtest.Table+loadIndexes)
}

func (c mysqlClient) countRows(ctx context.Context) (n int, err error) {
	v, err := c.value(ctx, "SELECT COUNT(*) FROM "+sbtest.Table)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(v, &n)
	return n, err
}

func (f *fastDDL) LoadStatement() string { return "`IMPORT INTO`, indexes in place" }

func (f *fastDDL) CreateTable(ctx context.Context) error { return f.client.createIndexed(ctx) }

func (f *fastDDL) LoadFile(ctx context.Context, file string) error {
	return f.client.exec(ctx, "IMPORT INTO "+sbtest.Table+" FROM '"+file+"'")
}

func (f *fastDDL) CountRows(ctx context.Context) (int, error) { return f.client.countRows(ctx) }

func (f *fastDDL) Remove() error { return os.RemoveAll(f.dir) }

func (m *mariaDB) LoadStatement() string { return "`LOAD DATA`, indexes in place" }

func (m *mariaDB) CreateTable(ctx context.Context) error { return m.client.createIndexed(ctx) }

func (m *mariaDB) LoadFile(ctx context.Context, file string) error {
	return m.client.inSession(ctx, "SET unique_checks = 0",
		"LOAD DATA INFILE '"+file+"' INTO TABLE "+sbtest.Table+" FIELDS TERMINATED BY ','")
}

func (m *mariaDB) CountRows(ctx context.Context) (int, error) { return m.client.countRows(ctx) }

func (m *mariaDB) Remove() error { return os.RemoveAll(m.dir) }

func (p *postgres) LoadStatement() string { return "`COPY`, then keys and indexes" }

func (p *postgres) CreateTable(ctx context.Context) error {
	return p.exec(ctx, "CREATE TABLE "+sbtest.Table+" ("+sbtest.Columns+")")
}

func (p *postgres) LoadFile(ctx context.Context, file string) error {
	return p.exec(ctx,
		"COPY "+sbtest.Table+" FROM '"+file+"' WITH (FORMAT csv)",
		"ALTER TABLE "+sbtest.Table+" ADD PRIMARY KEY (id)",
		"CREATE INDEX k_1 ON "+sbtest.Table+" (k)",
		"CREATE INDEX c_1 ON "+sbtest.Table+" (c)",
		"CHECKPOINT",
	)
}

func (p *postgres) CountRows(ctx context.Context) (n int, err error) {
	err = p.conn.QueryRow(ctx, "SELECT COUNT(*) FROM "+sbtest.Table).Scan(&n)
	return n, err
}

func (p *postgres) Remove() error { return os.RemoveAll(p.dir) }
