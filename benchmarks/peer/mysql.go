package peer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"fastddl/sbtest"
)

const database = "test"

// mysqlClient talks to a server of MySQL's protocol.
type mysqlClient struct {
	db *sql.DB
}

func dialMySQL(addr string) (mysqlClient, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", addr, "root", database
	cfg.Logger = &mysql.NopLogger{} // it would log failed connections to servers that are still starting
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
	_, err := c.value(ctx, "SELECT COUNT(*) FROM "+sbtest.Table+" WHERE pad = ''")
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
	_, err = conn.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::"+name+"' INTO TABLE "+sbtest.Table+" (id, k, c, pad)")
	return err
}

// MySQL's errors for an index and for a variable that do not exist.
const (
	errCantDropKey     = 1091
	errUnknownVariable = 1193
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

// dropIndexes drops those of the indexes that exist.
func (c mysqlClient) dropIndexes(ctx context.Context, indexes []Index) error {
	for _, i := range indexes {
		err := c.exec(ctx, "ALTER TABLE "+sbtest.Table+" DROP INDEX "+i.Name)
		if err != nil && mysqlNumber(err) != errCantDropKey {
			return err
		}
	}
	return nil
}

// session opens a connection with all statements prepared.
func (c mysqlClient) session(ctx context.Context) (sbtest.Session, error) {
	return sbtest.NewMySQLSession(ctx, c.db, sbtest.Prepared)
}
