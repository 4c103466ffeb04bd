package dump

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"fastddl/internal/errs"
	"fastddl/internal/parallel"
)

// rows loads the rows of all tables, largest tables first; those of a script in its order.
func (l *loader) rows(ctx context.Context, actions []action) error {
	byTable := make(map[Name]action, len(actions))
	var open []*Table
	for _, a := range actions {
		byTable[a.table.Name] = a
		if !a.done {
			open = append(open, a.table)
		} else if a.table.Bytes() > 0 {
			l.say("table %s is loaded already", a.table.Name)
		}
	}
	l.meter.begin(open)
	stop := l.meter.watch(ctx, l.db)
	defer stop()
	if l.dump.Script != "" {
		return l.script(ctx, byTable)
	}
	open = largestFirst(open)
	return parallel.Do(ctx, len(open), func() int { return l.Threads }, func(ctx context.Context, i int) error {
		return l.table(ctx, byTable[open[i].Name])
	})
}

// conn returns a connection with the settings that the rows of a table need, in its database.
func (l *loader) conn(ctx context.Context, t *Table) (*sql.Conn, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range sessionSQL(t, l.TimeZone) {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return nil, errs.Combine(fmt.Errorf("table %s: %s: %w", t.Name, text, err), conn.Close())
		}
	}
	return conn, nil
}

// sessionSQL returns the statements that make a session fit for a table's rows. A session has served another table before.
func sessionSQL(t *Table, timeZone string) []string {
	s := t.settings()
	charset, mode, zone := "utf8mb4", sqlMode, "DEFAULT"
	if s.binary {
		charset = "binary"
	}
	if s.literalBackslash {
		mode += ",NO_BACKSLASH_ESCAPES"
	}
	if s.timeZone != "" {
		timeZone = s.timeZone
	}
	if timeZone != "" {
		zone = quoteText(timeZone)
	}
	return []string{"USE " + quoteName(t.Name.Schema), "SET NAMES " + charset, "SET time_zone = " + zone, "SET sql_mode = '" + mode + "'"}
}

// plain returns a connection with the settings of a new one: it may have served a table before.
func (l *loader) plain(ctx context.Context) (*sql.Conn, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range plainSession {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return nil, errs.Combine(fmt.Errorf("%s: %w", text, err), conn.Close())
		}
	}
	return conn, nil
}

var plainSession = []string{"SET NAMES utf8mb4", "SET time_zone = DEFAULT", "SET sql_mode = '" + sqlMode + "'"}

// table loads the rows of a table that has files.
func (l *loader) table(ctx context.Context, a action) error {
	f, err := l.fields(ctx, a.table)
	if err != nil {
		return fmt.Errorf("table %s: %w", a.table.Name, err)
	}
	if a.way == WayImport {
		err := l.importTable(ctx, a, f)
		if err == nil || l.Way == WayImport || !cannotImport(err) {
			return err
		}
		l.say("table %s by INSERT: %v", a.table.Name, err)
	}
	return l.insertTable(ctx, a, func(ctx context.Context, in *inserter) error { return insertFiles(ctx, in, f) })
}

// fields returns the columns of a CSV table's fields.
func (l *loader) fields(ctx context.Context, t *Table) (fields, error) {
	if t.Files[0].Format != CSVFile {
		return fields{}, nil
	}
	columns, err := readColumns(ctx, l.db, t.Name)
	if err != nil {
		return fields{}, err
	}
	return csvFields(ctx, t, columns)
}

// readColumns returns the columns of a table on the server, in its order.
func readColumns(ctx context.Context, db queryer, name Name) (columns []column, err error) {
	rows, err := db.QueryContext(ctx, "SELECT COLUMN_NAME, GENERATION_EXPRESSION <> '' FROM information_schema.COLUMNS"+
		" WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION", name.Schema, name.Table)
	if err != nil {
		return nil, fmt.Errorf("read the columns: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.generated); err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	return columns, rows.Err()
}

// importTable loads a table by IMPORT INTO. If the server refuses, nothing is there, and nothing is noted. What an interrupted load
// has left is removed before the state says importing: that state takes rows for all rows.
func (l *loader) importTable(ctx context.Context, a action, f fields) (err error) {
	t := a.table
	if err := l.empty(ctx, a); err != nil {
		return err
	}
	if err := l.state.set(ctx, t, importing); err != nil {
		return err
	}
	conn, err := l.conn(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errs.Combine(err, conn.Close()) }()
	l.meter.start(t, WayImport)
	rows, err := importInto(ctx, conn, t, f)
	if err != nil {
		if refused(err) {
			err = errs.Combine(err, l.state.set(ctx, t, unknown))
		}
		return err
	}
	if err := l.state.set(ctx, t, loaded); err != nil {
		return err
	}
	l.meter.done(t, rows)
	return nil
}

// insertTable loads a table by INSERTs, which feed reads. What an interrupted load has left is removed first.
func (l *loader) insertTable(ctx context.Context, a action, feed func(ctx context.Context, in *inserter) error) error {
	in, err := l.beginInsert(ctx, a)
	if err != nil {
		return err
	}
	return l.endInsert(ctx, in, feed(in.ctx, in))
}

// empty removes the rows that an interrupted load has left in a table.
func (l *loader) empty(ctx context.Context, a action) error {
	if !a.empty {
		return nil
	}
	if _, err := l.db.ExecContext(ctx, "TRUNCATE TABLE "+a.table.Name.sql()); err != nil {
		return fmt.Errorf("empty table %s, which an earlier load has left unfinished: %w", a.table.Name, err)
	}
	return nil
}

func (l *loader) beginInsert(ctx context.Context, a action) (*inserter, error) {
	t := a.table
	if err := l.empty(ctx, a); err != nil {
		return nil, err
	}
	if err := l.state.set(ctx, t, inserting); err != nil {
		return nil, err
	}
	columns, err := l.rewrittenColumns(ctx, t)
	if err != nil {
		return nil, err
	}
	l.meter.start(t, WayInsert)
	return newInserter(ctx, t, columns, func(ctx context.Context) (*sql.Conn, error) { return l.conn(ctx, t) }, func(n int64) { l.meter.add(t, n) }), nil
}

// rewrittenColumns returns the columns of a table whose statements are rewritten, none of others.
func (l *loader) rewrittenColumns(ctx context.Context, t *Table) ([]column, error) {
	if !t.rewritten() {
		return nil, nil
	}
	columns, err := readColumns(ctx, l.db, t.Name)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	return columns, nil
}

func (l *loader) endInsert(ctx context.Context, in *inserter, readErr error) error {
	rows, err := in.finish(readErr)
	if err != nil {
		return err
	}
	if err := l.state.set(ctx, in.table, loaded); err != nil {
		return err
	}
	l.meter.done(in.table, rows)
	return nil
}

// script reads the script once more and loads its tables: those by IMPORT INTO from temporary files, beside its reading, the
// others as it is read.
func (l *loader) script(ctx context.Context, actions map[Name]action) (err error) {
	file, err := newFile(l.dump.Script)
	if err != nil {
		return err
	}
	s, err := openScript(ctx, file, l.Source.Database)
	if err != nil {
		return err
	}
	defer func() { err = errs.Combine(err, s.close()) }()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.Threads + 1) // and the reader
	r := scriptReader{loader: l, script: s, actions: actions, group: group, parts: make(map[Name]part), left: make(map[Name]int64)}
	group.Go(func() (err error) {
		defer errs.Contain(&err)
		return r.read(ctx)
	})
	return group.Wait()
}
