package peer

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"fastddl/benchmarks/data"
	"fastddl/benchmarks/load"
)

const database = "test"

// mysqlCreate is sysbench's table without its secondary index. Keys compare as
// bytes, as they do in PostgreSQL with the locale C.
const mysqlCreate = `CREATE TABLE ` + data.Table + ` (
  id INT NOT NULL,
  k INT NOT NULL DEFAULT 0,
  c CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT '',
  PRIMARY KEY (id)
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`

// mysqlClient talks to a server of MySQL's protocol.
type mysqlClient struct {
	db *sql.DB
}

func dialMySQL(addr string) (mysqlClient, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", addr, "root", database
	cfg.Logger = &mysql.NopLogger{} // servers are asked before they answer
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return mysqlClient{}, err
	}
	return mysqlClient{db: sql.OpenDB(connector)}, nil
}

// close ends all connections; a client that was never dialed has none.
func (c mysqlClient) close() {
	if c.db != nil {
		_ = c.db.Close() // the server ends next
	}
}

func (c mysqlClient) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := c.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (c mysqlClient) value(ctx context.Context, query string) (v string, err error) {
	if err := c.db.QueryRowContext(ctx, query).Scan(&v); err != nil {
		return "", fmt.Errorf("%s: %w", query, err)
	}
	return v, nil
}

// warm reads every row.
func (c mysqlClient) warm(ctx context.Context) error {
	_, err := c.value(ctx, "SELECT COUNT(*) FROM "+data.Table+" WHERE pad = ''")
	return err
}

// readers numbers the streams that LOAD DATA reads, which the driver knows by
// name.
var readers atomic.Int64

// loadData loads a stream of rows by one statement, on a connection of its own
// after the given statements.
func (c mysqlClient) loadData(ctx context.Context, rows io.Reader, before ...string) error {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, s := range before {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	name := "rows" + strconv.FormatInt(readers.Add(1), 10)
	mysql.RegisterReaderHandler(name, func() io.Reader { return rows })
	defer mysql.DeregisterReaderHandler(name)
	_, err = conn.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::"+name+"' INTO TABLE "+data.Table+" (id, k, c, pad)")
	return err
}

// Numbers of MySQL errors.
const (
	errCantDropKey     = 1091
	errLockWaitTimeout = 1205
	errDeadlock        = 1213
	errWriteConflict   = 9007
)

func mysqlNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// inSession executes statements one after the other on one connection.
func (c mysqlClient) inSession(ctx context.Context, statements ...string) (err error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// dropIndexes drops those that are there.
func (c mysqlClient) dropIndexes(ctx context.Context, indexes []Index) error {
	for _, i := range indexes {
		err := c.exec(ctx, "ALTER TABLE "+data.Table+" DROP INDEX "+i.Name)
		if err != nil && mysqlNumber(err) != errCantDropKey {
			return err
		}
	}
	return nil
}

// session opens a connection with all statements prepared.
func (c mysqlClient) session(ctx context.Context) (_ load.Session, err error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &mysqlSession{conn: conn}
	for stmt := range load.Statements {
		if !stmt.TakesArguments() {
			continue
		}
		if s.prepared[stmt], err = conn.PrepareContext(ctx, stmt.Text()); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

type mysqlSession struct {
	conn     *sql.Conn
	prepared [load.Statements]*sql.Stmt // those that take arguments
}

func (s *mysqlSession) Run(ctx context.Context, stmt load.Statement, args ...any) error {
	if !stmt.TakesArguments() {
		_, err := s.conn.ExecContext(ctx, stmt.Text())
		return err
	}
	if !stmt.ReturnsRows() {
		_, err := s.prepared[stmt].ExecContext(ctx, args...)
		return err
	}
	rows, err := s.prepared[stmt].QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var value sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&value); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *mysqlSession) Retryable(err error) bool {
	switch mysqlNumber(err) {
	case errLockWaitTimeout, errDeadlock, errWriteConflict:
		return true
	}
	return false
}

// Close ends the connection, so that a pool of them does not hand on one in an
// unknown state.
func (s *mysqlSession) Close() error {
	for _, p := range s.prepared {
		if p != nil {
			_ = p.Close() // they go with the connection
		}
	}
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // which makes the pool drop it
	if err := s.conn.Close(); !errors.Is(err, sql.ErrConnDone) {
		return err
	}
	return nil
}
