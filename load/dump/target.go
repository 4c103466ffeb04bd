package dump

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/ctl/connect"
)

// Target says which server to load into.
type Target struct {
	// Addr is host:port, or the file of a Unix socket.
	Addr           string
	User, Password string
	// Config has all of a connection, also Addr, User and Password; nil makes it of these.
	Config *mysql.Config
}

// config returns how to connect, for the caller to change.
func (t *Target) config() *mysql.Config {
	if t.Config != nil {
		return t.Config.Clone()
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd = "tcp", t.Addr, t.User, t.Password
	if t.unix() {
		cfg.Net = "unix"
	} else {
		cfg.TLSConfig = "preferred"
	}
	return cfg
}

// local reports whether the server is on this machine, so that a path means the same file to it.
func (t *Target) local() bool {
	if t.unix() {
		return true
	}
	host, _, err := net.SplitHostPort(t.Addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (t *Target) unix() bool { return strings.HasPrefix(t.Addr, "/") }

// sqlMode is strict, so that no value is changed, and accepts what servers with other modes have accepted.
const sqlMode = "STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"

// open returns connections to the server with a load's settings.
func (t *Target) open(conns int) (*sql.DB, error) {
	cfg := t.config()
	cfg.InterpolateParams = true
	cfg.MaxAllowedPacket = 0 // the server's
	cfg.Logger = &mysql.NopLogger{}
	cfg.Params = map[string]string{"sql_mode": "'" + sqlMode + "'", "foreign_key_checks": "0"}
	return connect.Pool(cfg, conns)
}

// queryer is a *sql.DB or a *sql.Conn.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// names returns the first two columns of a query as names.
func names(ctx context.Context, db queryer, query string) (_ map[Name]bool, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found := make(map[Name]bool)
	for rows.Next() {
		var n Name
		if err := rows.Scan(&n.Schema, &n.Table); err != nil {
			return nil, err
		}
		found[n.fold()] = true
	}
	return found, rows.Err()
}

// fold returns the name as TiDB compares it: without regard to case.
func (n Name) fold() Name { return Name{strings.ToLower(n.Schema), strings.ToLower(n.Table)} }

// catalog is what the server has.
type catalog struct {
	schemas, tables, sequences map[Name]bool // folded; tables has views too
	// filled are the tables of the dump that have rows.
	filled map[Name]bool
	// securePath is where the server may read files, "" for nowhere.
	securePath string
}

func readCatalog(ctx context.Context, db queryer, tables []*Table) (*catalog, error) {
	var c catalog
	var err error
	if c.schemas, err = names(ctx, db, "SELECT SCHEMA_NAME, '' FROM information_schema.SCHEMATA"); err != nil {
		return nil, fmt.Errorf("list the server's databases: %w", err)
	}
	if c.tables, err = names(ctx, db, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"); err != nil {
		return nil, fmt.Errorf("list the server's tables: %w", err)
	}
	if c.sequences, err = names(ctx, db, "SELECT SEQUENCE_SCHEMA, SEQUENCE_NAME FROM information_schema.SEQUENCES"); err != nil {
		return nil, fmt.Errorf("list the server's sequences: %w", err)
	}
	c.filled = make(map[Name]bool)
	for _, t := range tables {
		if !c.tables[t.Name.fold()] {
			continue
		}
		filled, err := hasRows(ctx, db, t.Name)
		if err != nil {
			return nil, err
		}
		c.filled[t.Name.fold()] = filled
	}
	var secure sql.NullString
	if err := db.QueryRowContext(ctx, "SELECT @@secure_file_priv").Scan(&secure); err != nil {
		return nil, fmt.Errorf("read secure_file_priv: %w", err)
	}
	if c.securePath = secure.String; c.securePath == "NULL" {
		c.securePath = ""
	}
	return &c, nil
}

func hasRows(ctx context.Context, db queryer, name Name) (bool, error) {
	var one int
	err := db.QueryRowContext(ctx, "SELECT 1 FROM "+name.sql()+" LIMIT 1").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether %s has rows: %w", name, err)
	}
	return true, nil
}

// refused reports whether the server itself has answered with an error: what it was asked to do is not done. Of a
// connection that is lost this is not known.
func refused(err error) bool {
	var theirs *mysql.MySQLError
	return errors.As(err, &theirs)
}

// missing reports whether the server has no such table, or no such database.
func missing(err error) bool {
	var theirs *mysql.MySQLError
	return errors.As(err, &theirs) && (theirs.Number == errno.ErrNoSuchTable || theirs.Number == errno.ErrBadDB)
}
