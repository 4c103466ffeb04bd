package dump

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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

// state is the record of loads on the server.
type state struct{ db queryer }

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
	for _, text := range []string{createStateSchema, createStateTable} {
		if _, err := s.db.ExecContext(ctx, text); err != nil {
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
	query, args := "REPLACE INTO "+stateTable+" (table_schema, table_name, rows_of, state) VALUES (?, ?, ?, ?)", []any{name.Schema, name.Table, identity, string(p)}
	if p == unknown {
		query, args = "DELETE FROM "+stateTable+" WHERE table_schema = ? AND table_name = ?", args[:2]
	}
	_, err := s.db.ExecContext(ctx, query, args...)
	if missing(err) { // another load, which has ended, has dropped it
		if p == unknown {
			return nil
		}
		if err := s.create(ctx); err != nil {
			return err
		}
		_, err = s.db.ExecContext(ctx, query, args...)
	}
	if err != nil {
		return fmt.Errorf("note the state of %s: %w", name, err)
	}
	return nil
}

// remove drops the state of the tables of a load that has ended well, and the database if no other load has a state there.
func (s *state) remove(ctx context.Context, tables []*Table) error {
	for _, t := range tables {
		if err := s.set(ctx, t, unknown); err != nil {
			return err
		}
	}
	others, err := hasRows(ctx, s.db, Name{stateSchema, "tables_v1"})
	if missing(err) {
		return nil
	}
	if err != nil || others {
		return err
	}
	if _, err := s.db.ExecContext(ctx, "DROP DATABASE IF EXISTS `"+stateSchema+"`"); err != nil {
		return fmt.Errorf("remove the state of the load: %w", err)
	}
	return nil
}
