package dump

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// define creates what is not on the server: databases, sequences, tables, in this order. All that fails is in one error.
func (l *loader) define(ctx context.Context, actions []action) error {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var problems []error
	for _, o := range l.dump.Databases {
		if !l.catalog.schemas[o.Name.fold()] {
			problems = append(problems, execAll(ctx, conn, "database", o))
		}
	}
	for _, o := range l.dump.Sequences {
		if !l.catalog.sequences[o.Name.fold()] {
			problems = append(problems, execAll(ctx, conn, "sequence", o))
		}
	}
	for _, a := range actions {
		if a.create {
			problems = append(problems, execAll(ctx, conn, "table", Object{Name: a.table.Name, SQL: a.table.SQL}))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(problems...)
}

// execAll executes the statements of an object in its database.
func execAll(ctx context.Context, conn *sql.Conn, kind string, o Object) error {
	if o.Name.Table != "" {
		if _, err := conn.ExecContext(ctx, "USE "+quoteName(o.Name.Schema)); err != nil {
			return fmt.Errorf("%s %s: %w", kind, o.Name, err)
		}
	}
	for _, text := range o.SQL {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("create %s %s: %w", kind, o.Name, err)
		}
	}
	return nil
}

// views creates the views that are not on the server. One may need another, so those that fail are tried again as long
// as others succeed.
func (l *loader) views(ctx context.Context) error {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var open []Object
	for _, o := range l.dump.Views {
		if l.catalog.tables[o.Name.fold()] {
			l.say("view %s is on the server: its definition there is kept", o.Name)
			continue
		}
		open = append(open, o)
	}
	for len(open) > 0 {
		var failed []Object
		var problems []error
		for _, o := range open {
			if err := execAll(ctx, conn, "view", o); err != nil {
				failed, problems = append(failed, o), append(problems, err)
			}
		}
		if len(failed) == len(open) || ctx.Err() != nil {
			return errors.Join(problems...)
		}
		open = failed
	}
	return nil
}
