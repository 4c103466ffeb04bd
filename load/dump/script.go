package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

func atEnd(err error) bool { return errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) }

// script is a file that holds a whole dump, as mysqldump writes it.
type script struct {
	file File
	// database is the current one, as USE sets it.
	database string
	session  session
	scanner  *scanner
	reader   *opened
}

// openScript begins to read a script.
func openScript(ctx context.Context, file File, database string) (*script, error) {
	r, err := file.open(ctx)
	if err != nil {
		return nil, err
	}
	return &script{file: file, database: database, reader: r, scanner: newScanner(r)}, nil
}

func (s *script) close() error { return s.reader.Close() }

// next returns the next statement that does something, its name with a schema; io.EOF at the end.
func (s *script) next() (command, statement, error) {
	for {
		st, err := s.scanner.next()
		if err != nil {
			if !atEnd(err) {
				err = fmt.Errorf("%s: %w", s.file.Path, err)
			}
			return command{}, st, err
		}
		if err := s.session.take(st.text); err != nil {
			return command{}, st, fmt.Errorf("%s, line %d: %w", s.file.Path, st.line, err)
		}
		s.scanner.literal = s.session.literalBackslash
		c := classify(st.text)
		switch c.kind {
		case kindIgnored:
			continue
		case kindUse:
			s.database = c.name.Schema
			continue
		case kindUnknown:
			return c, st, unknownCommand(s.file.Path, st, c)
		case kindDatabase:
			return c, st, nil
		}
		if c.name = inSchema(c.name, s.database); c.name.Schema == "" && c.kind != kindLeftOut {
			return c, st, fmt.Errorf("%s, line %d: the dump names no database for %s: say --database", s.file.Path, st.line, c.name.Table)
		}
		return c, st, nil
	}
}

// createsFirst reports whether the first statement of a file that does something creates something.
func (f *File) createsFirst(ctx context.Context) (_ bool, err error) {
	s, err := openScript(ctx, *f, "none")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c, _, err := s.next()
	return err == nil && c.kind != kindInsert, err
}

// readScript reads a script to its end, and notes definitions and the sizes of tables.
func (src *Source) readScript(ctx context.Context, path string) (_ *Dump, err error) {
	file, err := newFile(path)
	if err != nil {
		return nil, err
	}
	if file.Format != SQL {
		return nil, fmt.Errorf("%s names no table: a file of rows is named DATABASE.TABLE.csv, or TABLE.csv with --database", path)
	}
	s, err := openScript(ctx, file, src.Database)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	d := &Dump{Format: "script", Script: path}
	b := scriptBuilder{dump: d, tables: make(map[Name]*Table)}
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c, st, err := s.next()
		if atEnd(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := b.add(c, st, s); err != nil {
			return nil, err
		}
	}
	b.finish()
	return d, nil
}

// scriptBuilder collects what the statements of a script make.
type scriptBuilder struct {
	dump   *Dump
	tables map[Name]*Table
	// current is the table of the INSERT before, nil if another statement was in between.
	current *Table
}

func (b *scriptBuilder) add(c command, st statement, s *script) error {
	text := func() string { return string(withoutLeadingComments(st.text)) }
	if c.kind != kindInsert {
		b.current = nil
	}
	switch c.kind {
	case kindDatabase:
		b.dump.Databases = append(b.dump.Databases, Object{Name: c.name, SQL: []string{text()}})
	case kindTable, kindAlter:
		t := b.table(c.name)
		if c.kind == kindTable && len(t.SQL) > 0 {
			return fmt.Errorf("%s, line %d: table %s is created twice", s.file.Path, st.line, c.name)
		}
		t.SQL = append(t.SQL, text())
	case kindView: // the last definition counts: mysqldump first writes one that stands for the view
		b.dump.Views = slices.DeleteFunc(b.dump.Views, func(o Object) bool { return o.Name == c.name })
		b.dump.Views = append(b.dump.Views, Object{Name: c.name, SQL: []string{text()}})
	case kindSequence:
		b.dump.Sequences = append(b.dump.Sequences, Object{Name: c.name, SQL: []string{text()}})
	case kindSetval:
		for i := range b.dump.Sequences {
			if o := &b.dump.Sequences[i]; o.Name == c.name {
				o.SQL = append(o.SQL, text())
				return nil
			}
		}
		return fmt.Errorf("%s, line %d: sequence %s is set and not created", s.file.Path, st.line, c.name)
	case kindLeftOut:
		b.dump.LeftOut = append(b.dump.LeftOut, LeftOut{Kind: c.what, Name: c.name, Reason: notInTiDB})
	case kindInsert:
		t := b.current
		if t == nil || t.Name != c.name {
			t = b.table(c.name)
			t.section.runs++
			b.current = t
			if t.section.runs == 1 {
				t.section.path, t.section.settings = s.file.Path, s.session.settings
			}
		}
		if t.section.settings != s.session.settings {
			return fmt.Errorf("%s, line %d: the time zone changes within the rows of table %s", s.file.Path, st.line, t.Name)
		}
		t.section.bytes += int64(len(st.text))
		t.unlisted = t.unlisted || c.unlisted
	}
	return nil
}

func (b *scriptBuilder) table(name Name) *Table {
	t := b.tables[name]
	if t == nil {
		t = &Table{Name: name}
		b.tables[name] = t
		b.dump.Tables = append(b.dump.Tables, t)
	}
	return t
}

// finish drops tables that stand for a view until the view is created.
func (b *scriptBuilder) finish() {
	views := make(map[Name]bool, len(b.dump.Views))
	for _, v := range b.dump.Views {
		views[v.Name] = true
	}
	b.dump.Tables = slices.DeleteFunc(b.dump.Tables, func(t *Table) bool { return views[t.Name] && t.section.runs == 0 })
}
