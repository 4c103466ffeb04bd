package dump

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readFolder reads a folder of Dumpling, mydumper, or of plain CSV or Parquet files.
func (src *Source) readFolder(ctx context.Context, dir string) (*Dump, error) {
	var files []string
	// With a separator behind it a folder that is a link is followed.
	err := filepath.WalkDir(dir+string(filepath.Separator), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.Mode().IsRegular():
			files = append(files, path)
		case info.IsDir():
			return fmt.Errorf("%s is a link to a folder: put the folder, or links to its files, in its place", path)
		case routeName(e.Name(), src.Database).role != roleNone:
			return fmt.Errorf("%s is no regular file", path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	format := "files"
	if exists(filepath.Join(dir, "metadata")) {
		format = "Dumpling or mydumper"
	}
	return src.readFiles(ctx, files, format)
}

// folder collects what the files of a folder hold.
type folder struct {
	dump *Dump
	// databases and tables map the names of files to those of the statements inside.
	databases map[string]string
	tables    map[Name]*Table
	views     map[Name]bool
	unknown   []string
}

func (src *Source) readFiles(ctx context.Context, files []string, format string) (*Dump, error) {
	slices.Sort(files)
	f := &folder{dump: &Dump{Format: format}, databases: make(map[string]string), tables: make(map[Name]*Table), views: make(map[Name]bool)}
	// Definitions first: they have the names.
	for _, want := range []role{roleDatabase, roleView, roleTable, roleSequence, roleLeftOut, roleRows, roleNone} {
		for _, path := range files {
			r := routeName(filepath.Base(path), src.Database)
			if r.role != want {
				continue
			}
			if err := f.add(ctx, src, path, r); err != nil {
				return nil, err
			}
		}
	}
	if len(f.unknown) > 0 {
		return nil, fmt.Errorf("no table is named by %s: files are named DATABASE.TABLE.sql, .csv or .parquet, with a number before the ending and .gz, .zst or .snappy behind it;"+
			" with --database also TABLE.csv. A script of mysqldump is loaded by itself: name the file", strings.Join(f.unknown, ", "))
	}
	f.dropPlaceholders()
	return f.dump, nil
}

func (f *folder) add(ctx context.Context, src *Source, path string, r route) error {
	switch r.role {
	case roleDatabase:
		return f.addDatabase(ctx, path, r.name)
	case roleTable:
		return f.addTable(ctx, path, r.name)
	case roleView, roleSequence:
		return f.addObject(ctx, path, r)
	case roleLeftOut:
		return f.addLeftOut(ctx, path, r)
	case roleRows:
		return f.addRows(ctx, src, path, r.name)
	case roleNone:
		if _, _, data := fileFormat(path); data {
			f.unknown = append(f.unknown, filepath.Base(path))
		}
	}
	return nil
}

// commands reads a file of definitions.
func commands(ctx context.Context, path string, each func(command, string) error) error {
	text, err := readAll(ctx, path)
	if err != nil {
		return err
	}
	var set session
	s := newScanner(strings.NewReader(string(text)))
	for {
		st, err := s.next()
		if atEnd(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := set.take(st.text); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, st.line, err)
		}
		c := classify(st.text)
		if c.kind == kindUnknown {
			return unknownCommand(path, st, c)
		}
		if err := each(c, string(withoutLeadingComments(st.text))); err != nil {
			return err
		}
	}
}

// unknownCommand is the error of a statement that belongs to no dump: what it does is not known, so leaving it out could
// lose something.
func unknownCommand(path string, st statement, c command) error {
	text := shortText(withoutLeadingComments(st.text))
	return fmt.Errorf("%s, line %d: %s is no statement of a dump: %s", path, st.line, c.what, text)
}

func shortText(text []byte) string {
	const most = 80
	line := strings.Join(strings.Fields(string(text[:min(len(text), 4*most)])), " ")
	if len(line) > most {
		return strings.ToValidUTF8(line[:most], "") + "..."
	}
	return line
}

func (f *folder) addDatabase(ctx context.Context, path string, name Name) error {
	return commands(ctx, path, func(c command, text string) error {
		if c.kind == kindDatabase {
			f.databases[name.Schema] = c.name.Schema
			f.dump.Databases = append(f.dump.Databases, Object{Name: c.name, SQL: []string{text}})
		}
		return nil
	})
}

// schema returns the database that files of this name belong to.
func (f *folder) schema(file string) string {
	if name, ok := f.databases[file]; ok {
		return name
	}
	return file
}

func (f *folder) addTable(ctx context.Context, path string, name Name) error {
	t := &Table{Name: Name{Schema: f.schema(name.Schema)}}
	err := commands(ctx, path, func(c command, text string) error {
		switch c.kind {
		case kindTable:
			t.Name.Table = c.name.Table
			t.SQL = append(t.SQL, text)
		case kindAlter:
			t.SQL = append(t.SQL, text)
		case kindView: // mydumper before 0.11 writes a view's placeholder so
		case kindInsert:
			return fmt.Errorf("%s has rows: they are expected in files of their own", path)
		}
		return nil
	})
	if err != nil || t.Name.Table == "" {
		return err
	}
	f.tables[name] = t
	f.dump.Tables = append(f.dump.Tables, t)
	return nil
}

// addObject adds a view or a sequence.
func (f *folder) addObject(ctx context.Context, path string, r route) error {
	o := Object{Name: Name{Schema: f.schema(r.name.Schema)}}
	err := commands(ctx, path, func(c command, text string) error {
		switch c.kind {
		case kindView, kindSequence:
			o.Name.Table = c.name.Table
			o.SQL = append(o.SQL, text)
		case kindSetval:
			o.SQL = append(o.SQL, text)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case o.Name.Table == "":
		return fmt.Errorf("%s creates nothing", path)
	case r.role == roleView:
		f.views[o.Name] = true
		f.dump.Views = append(f.dump.Views, o)
	default:
		f.dump.Sequences = append(f.dump.Sequences, o)
	}
	return nil
}

// addLeftOut names the objects of a file that is not loaded.
func (f *folder) addLeftOut(ctx context.Context, path string, r route) error {
	if r.what == "placement policy" {
		f.dump.LeftOut = append(f.dump.LeftOut, LeftOut{Kind: r.what, Name: r.name, Reason: "an embedded store has one place"})
		return nil
	}
	schema := f.schema(r.name.Schema)
	found := false
	text, err := readAll(ctx, path)
	if err != nil {
		return err
	}
	s := newScanner(strings.NewReader(string(text)))
	for {
		st, err := s.next()
		if err != nil {
			break // nothing of the file is executed
		}
		if c := classify(st.text); c.kind == kindLeftOut {
			found = true
			f.dump.LeftOut = append(f.dump.LeftOut, LeftOut{Kind: c.what, Name: inSchema(c.name, schema), Reason: notInTiDB})
		}
	}
	if !found {
		f.dump.LeftOut = append(f.dump.LeftOut, LeftOut{Kind: r.what + " of", Name: Name{Schema: schema, Table: r.name.Table}, Reason: notInTiDB})
	}
	return nil
}

func inSchema(n Name, schema string) Name {
	if n.Schema == "" {
		n.Schema = schema
	}
	return n
}

func (f *folder) addRows(ctx context.Context, src *Source, path string, name Name) error {
	file, err := newFile(path)
	if err != nil {
		return err
	}
	if file.Bytes == 0 {
		return nil
	}
	unlisted := false
	if file.Format == SQL {
		if unlisted, err = file.readSettings(ctx); err != nil {
			return err
		}
	}
	t := f.tables[name]
	if t == nil {
		t = &Table{Name: Name{Schema: f.schema(name.Schema), Table: name.Table}}
		f.tables[name] = t
		f.dump.Tables = append(f.dump.Tables, t)
	}
	if len(t.Files) == 0 {
		t.CSV = src.CSV
	} else if first := t.Files[0]; first.Format != file.Format || first.settings != file.settings {
		return fmt.Errorf("table %s has files of different formats or settings: %s and %s", t.Name, first.Path, path)
	}
	t.Files = append(t.Files, file)
	t.unlisted = t.unlisted || unlisted
	return nil
}

// dropPlaceholders drops tables that stand for a view until the view is created.
func (f *folder) dropPlaceholders() {
	f.dump.Tables = slices.DeleteFunc(f.dump.Tables, func(t *Table) bool { return f.views[t.Name] })
}
