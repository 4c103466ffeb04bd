package dump

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"fastddl/internal/errs"
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
		exists, half := l.catalog.sequences[o.Name.fold()], l.before[o.Name] == defining
		if !exists || half {
			problems = append(problems, l.create(ctx, conn, "sequence", o, exists))
		}
	}
	for _, a := range actions {
		if a.create {
			problems = append(problems, l.create(ctx, conn, "table", Object{Name: a.table.Name, SQL: a.table.SQL}, a.half))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(problems...)
}

// create makes a table or a sequence; half says that one is there, without rows, whose statements were not all executed. The
// state says so until they are, lest the next load takes it for whole. A single statement makes all or nothing.
func (l *loader) create(ctx context.Context, conn *sql.Conn, kind string, o Object, half bool) error {
	if half {
		if _, err := conn.ExecContext(ctx, "DROP "+strings.ToUpper(kind)+" "+o.Name.sql()); err != nil {
			return fmt.Errorf("drop %s %s, whose definition an earlier load has left unfinished: %w", kind, o.Name, err)
		}
	}
	if len(o.SQL) == 1 && l.before[o.Name] != defining {
		return execAll(ctx, conn, kind, o)
	}
	if err := l.state.note(ctx, o.Name, "", defining); err != nil {
		return err
	}
	first := Object{Name: o.Name, SQL: o.SQL[:1]}
	if err := execAll(ctx, conn, kind, first); err != nil {
		if refused(err) { // nothing is made, so what another makes in this name is not half
			err = errs.Combine(err, l.state.note(ctx, o.Name, "", unknown))
		}
		return err
	}
	if err := execAll(ctx, conn, kind, Object{Name: o.Name, SQL: o.SQL[1:]}); err != nil {
		return err
	}
	return l.state.note(ctx, o.Name, "", unknown)
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
	conn, err := l.plain(ctx)
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
