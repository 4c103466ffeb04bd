package dump

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"

	"fastddl/internal/errs"
)

// The server holds the state of loads, in a table of its own that the end of the last one drops. The name has the version of
// the format. Beside a table's name stands the identity of the rows.
const (
	stateSchema = "fastddl_load"
	stateTable  = "`" + stateSchema + "`.`tables_v1`"

	createStateSchema = "CREATE DATABASE IF NOT EXISTS `" + stateSchema + "`"
	createStateTable  = "CREATE TABLE IF NOT EXISTS " + stateTable + ` (
	table_schema VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	table_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	rows_of CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	PRIMARY KEY (table_schema, table_name))`
)

// progress is how far the load of a table is.
type progress string

const (
	// unknown: this load has written nothing to the table.
	unknown progress = ""
	// defining: the statements that create the table or sequence were begun, and their end was not seen.
	defining progress = "defining"
	// importing: IMPORT INTO was sent, and its end was not seen. The table is empty, or it is loaded.
	importing progress = "importing"
	// inserting: INSERTs were sent. The table has any part of the rows.
	inserting progress = "inserting"
	// loaded: all rows are there.
	loaded progress = "loaded"
)

// identity is that of a table's rows: by the paths of their files and the sizes. Rows that were written anew are others.
func (t *Table) identity() string {
	h := sha256.New()
	fmt.Fprintln(h, t.Name.sql(), t.section.path, t.section.bytes)
	if t.section.path == "" {
		for _, f := range t.Files {
			fmt.Fprintln(h, f.Path, f.Bytes)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// state is the record of loads on the server. Several loads may share it: what changes it holds a lock of the server, so that
// none drops what another has noted since it looked.
type state struct{ db *sql.DB }

const (
	stateLock = "fastddl_load"
	// lockSeconds is how long a load waits for the lock, which others hold for a statement or two.
	lockSeconds = 60
)

// locked calls fn with a connection that holds the lock.
func (s *state) locked(ctx context.Context, fn func(conn *sql.Conn) error) (err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("lock the state of loads: %w", err)
	}
	defer func() {
		if closing := conn.Close(); !errors.Is(closing, sql.ErrConnDone) {
			err = errs.Combine(err, closing)
		}
	}()
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", stateLock, lockSeconds).Scan(&got); err != nil {
		return fmt.Errorf("lock the state of loads: %w", err)
	}
	if got.Int64 != 1 {
		return fmt.Errorf("another load has held the lock %s on the state of loads for %d seconds", stateLock, lockSeconds)
	}
	defer func() {
		if _, unlock := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", stateLock); unlock != nil {
			// The lock ends with its connection, which must not go back to the others.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	return fn(conn)
}

// read returns the progress of the given tables, as far as a load of the same rows has begun, and of tables and sequences
// whose definition has begun, by a load of any rows.
func (s *state) read(ctx context.Context, c *catalog, d *Dump) (_ map[Name]progress, err error) {
	found := make(map[Name]progress)
	if !c.tables[Name{stateSchema, "tables_v1"}] {
		return found, nil
	}
	wanted := make(map[Name]string, len(d.Tables))
	for _, t := range d.Tables {
		wanted[t.Name] = t.identity()
	}
	rows, err := s.db.QueryContext(ctx, "SELECT rows_of, table_schema, table_name, state FROM "+stateTable)
	if missing(err) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of an earlier load: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var identity string
		var n Name
		var p progress
		if err := rows.Scan(&identity, &n.Schema, &n.Table, &p); err != nil {
			return nil, err
		}
		switch p {
		case defining, importing, inserting, loaded:
		default:
			return nil, fmt.Errorf("table %s has the state %q in %s, which this version does not know", n, p, stateTable)
		}
		if p == defining || wanted[n] == identity {
			found[n] = p
		}
	}
	return found, rows.Err()
}

// create makes the table of the state.
func (s *state) create(ctx context.Context) error {
	return s.locked(ctx, func(conn *sql.Conn) error { return createState(ctx, conn) })
}

func createState(ctx context.Context, conn *sql.Conn) error {
	for _, text := range []string{createStateSchema, createStateTable} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("create the table of the load's state: %w", err)
		}
	}
	return nil
}

// set notes how far a table is.
func (s *state) set(ctx context.Context, t *Table, p progress) error {
	return s.note(ctx, t.Name, t.identity(), p)
}

// note notes how far a table or a sequence is.
func (s *state) note(ctx context.Context, name Name, identity string, p progress) error {
	return s.locked(ctx, func(conn *sql.Conn) error { return note(ctx, conn, name, identity, p) })
}

func note(ctx context.Context, conn *sql.Conn, name Name, identity string, p progress) error {
	query, args := "REPLACE INTO "+stateTable+" (table_schema, table_name, rows_of, state) VALUES (?, ?, ?, ?)", []any{name.Schema, name.Table, identity, string(p)}
	if p == unknown {
		query, args = "DELETE FROM "+stateTable+" WHERE table_schema = ? AND table_name = ?", args[:2]
	}
	_, err := conn.ExecContext(ctx, query, args...)
	if missing(err) { // another load, which has ended, has dropped it
		if p == unknown {
			return nil
		}
		if err := createState(ctx, conn); err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, query, args...)
	}
	if err != nil {
		return fmt.Errorf("note the state of %s: %w", name, err)
	}
	return nil
}

// remove drops the state of the tables of a load that has ended well, and the database if no other load has a state there.
func (s *state) remove(ctx context.Context, tables []*Table) error {
	return s.locked(ctx, func(conn *sql.Conn) error {
		for _, t := range tables {
			if err := note(ctx, conn, t.Name, t.identity(), unknown); err != nil {
				return err
			}
		}
		others, err := hasRows(ctx, conn, Name{stateSchema, "tables_v1"})
		if missing(err) {
			return nil
		}
		if err != nil || others {
			return err
		}
		if _, err := conn.ExecContext(ctx, "DROP DATABASE IF EXISTS `"+stateSchema+"`"); err != nil {
			return fmt.Errorf("remove the state of the load: %w", err)
		}
		return nil
	})
}
