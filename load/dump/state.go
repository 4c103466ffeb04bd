package dump

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// The server holds the state of a load, in a table of its own that the end of the load drops. The name has the version of the
// format.
const (
	stateSchema = "fastddl_load"
	stateTable  = "`" + stateSchema + "`.`tables_v1`"

	createStateSchema = "CREATE DATABASE IF NOT EXISTS `" + stateSchema + "`"
	createStateTable  = "CREATE TABLE IF NOT EXISTS " + stateTable + ` (
	dump CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	table_schema VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	table_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	PRIMARY KEY (dump, table_schema, table_name))`
)

// progress is how far the load of a table is.
type progress string

const (
	// unknown: this load has written nothing to the table.
	unknown progress = ""
	// importing: IMPORT INTO was sent, and its end was not seen. The table is empty, or it is loaded.
	importing progress = "importing"
	// inserting: INSERTs were sent. The table has any part of the rows.
	inserting progress = "inserting"
	// loaded: all rows are there.
	loaded progress = "loaded"
)

// identity is that of a dump: by the path of its files and their sizes. A dump that was written anew is another one.
func (d *Dump) identity() string {
	h := sha256.New()
	fmt.Fprintln(h, d.Script)
	for _, t := range d.Tables {
		fmt.Fprintln(h, t.Name.sql(), t.section.bytes)
		for _, f := range t.Files {
			fmt.Fprintln(h, f.Path, f.Bytes)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// state is the record of a load on the server.
type state struct {
	db   queryer
	dump string
}

// read returns the progress of the tables that this load has begun.
func (s *state) read(ctx context.Context, c *catalog) (_ map[Name]progress, err error) {
	found := make(map[Name]progress)
	if !c.tables[Name{stateSchema, "tables_v1"}] {
		return found, nil
	}
	rows, err := s.db.QueryContext(ctx, "SELECT table_schema, table_name, state FROM "+stateTable+" WHERE dump = ?", s.dump)
	if err != nil {
		return nil, fmt.Errorf("read the state of an earlier load: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n Name
		var p progress
		if err := rows.Scan(&n.Schema, &n.Table, &p); err != nil {
			return nil, err
		}
		switch p {
		case importing, inserting, loaded:
		default:
			return nil, fmt.Errorf("table %s has the state %q in %s, which this version does not know", n, p, stateTable)
		}
		found[n] = p
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
func (s *state) set(ctx context.Context, name Name, p progress) error {
	query, args := "REPLACE INTO "+stateTable+" (dump, table_schema, table_name, state) VALUES (?, ?, ?, ?)", []any{s.dump, name.Schema, name.Table, string(p)}
	if p == unknown {
		query, args = "DELETE FROM "+stateTable+" WHERE dump = ? AND table_schema = ? AND table_name = ?", args[:3]
	}
	if _, err := s.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("note the state of table %s: %w", name, err)
	}
	return nil
}

// remove drops the state of a load that has ended well, and the database if no other load has a state there.
func (s *state) remove(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, "DELETE FROM "+stateTable+" WHERE dump = ?", s.dump); err != nil {
		return fmt.Errorf("remove the state of the load: %w", err)
	}
	others, err := hasRows(ctx, s.db, Name{stateSchema, "tables_v1"})
	if err != nil || others {
		return err
	}
	if _, err := s.db.ExecContext(ctx, "DROP DATABASE `"+stateSchema+"`"); err != nil {
		return fmt.Errorf("remove the state of the load: %w", err)
	}
	return nil
}
