package sbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// Mode is how a session sends its statements.
type Mode int

// Modes.
const (
	// Text sends each statement as text; the driver has to put in the arguments
	// (InterpolateParams), or it prepares each statement anew.
	Text Mode = iota
	// Prepared prepares the statements that take arguments once.
	Prepared
)

// NewMySQLSession opens a connection to a server of MySQL's protocol.
func NewMySQLSession(ctx context.Context, db *sql.DB, mode Mode) (_ Session, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &mysqlSession{conn: conn}
	for stmt := range Statements {
		if mode == Text || !stmt.TakesArguments() {
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
	prepared [Statements]*sql.Stmt // those that take arguments, if they are prepared
}

// Run implements Session.
func (s *mysqlSession) Run(ctx context.Context, stmt Statement, args ...any) error {
	if !stmt.ReturnsRows() {
		return s.exec(ctx, stmt, args)
	}
	rows, err := s.query(ctx, stmt, args)
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

func (s *mysqlSession) exec(ctx context.Context, stmt Statement, args []any) (err error) {
	if p := s.prepared[stmt]; p != nil {
		_, err = p.ExecContext(ctx, args...)
	} else {
		_, err = s.conn.ExecContext(ctx, stmt.Text(), args...)
	}
	return err
}

func (s *mysqlSession) query(ctx context.Context, stmt Statement, args []any) (*sql.Rows, error) {
	if p := s.prepared[stmt]; p != nil {
		return p.QueryContext(ctx, args...)
	}
	return s.conn.QueryContext(ctx, stmt.Text(), args...)
}

// MySQL errors by which a server asks to run the transaction again.
const (
	errLockWaitTimeout = 1205
	errDeadlock        = 1213
	errWriteConflict   = 9007
)

// Retryable implements Session.
func (s *mysqlSession) Retryable(err error) bool { return isConflict(err) }

func isConflict(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	return e.Number == errLockWaitTimeout || e.Number == errDeadlock || e.Number == errWriteConflict
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
