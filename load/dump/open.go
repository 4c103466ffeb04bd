package dump

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	filter "github.com/pingcap/tidb/pkg/util/table-filter"
)

// Source says what to read.
type Source struct {
	// Paths are a folder, or files.
	Paths []string
	// Database is that of what names none: a mysqldump of one database, files named for their table only.
	Database string
	// Filter has patterns of the tables and views to load, as db.table with * and ?, ! before it for what is left out; default all.
	Filter []string
	// CSV says how CSV files are written that say it not themselves.
	CSV CSV
}

// systemSchemas are never loaded: they are the server's own.
var systemSchemas = map[string]bool{"mysql": true, "sys": true, "information_schema": true, "performance_schema": true, "metrics_schema": true, stateSchema: true}

// Open reads the definitions of a dump and finds the rows of its tables. A single script is read once from its beginning
// to its end. All that the server could not load is in one error.
func Open(ctx context.Context, src Source) (*Dump, error) {
	d, err := src.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.choose(src.Filter); err != nil {
		return nil, err
	}
	d.addDatabases()
	if err := d.setPatterns(); err != nil {
		return nil, err
	}
	return d, d.check()
}

// addDatabases adds the databases that the dump uses and does not create: a mysqldump of one database has no statement
// for it. Tables without a definition must be on the server, and so their database.
func (d *Dump) addDatabases() {
	known := make(map[string]bool)
	for _, o := range d.Databases {
		known[o.Name.Schema] = true
	}
	use := func(n Name) {
		if !known[n.Schema] {
			known[n.Schema] = true
			d.Databases = append(d.Databases, Object{Name: Name{Schema: n.Schema}, SQL: []string{"CREATE DATABASE " + quoteName(n.Schema)}})
		}
	}
	for _, t := range d.Tables {
		if len(t.SQL) > 0 {
			use(t.Name)
		}
	}
	for _, o := range slices.Concat(d.Sequences, d.Views) {
		use(o.Name)
	}
}

func (src *Source) read(ctx context.Context) (*Dump, error) {
	if len(src.Paths) == 0 {
		return nil, errNothing
	}
	var files []string
	for _, p := range src.Paths {
		path, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir() && len(src.Paths) > 1:
			return nil, fmt.Errorf("%s is a folder: name one folder, or files", p)
		case info.IsDir() && exists(filepath.Join(path, shellMetadata)):
			return readShell(ctx, path)
		case info.IsDir():
			return src.readFolder(ctx, path)
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is no regular file", p)
		}
		files = append(files, path)
	}
	if src.isScript(ctx, files) {
		return src.readScript(ctx, files[0])
	}
	return src.readFiles(ctx, files, "files")
}

// isScript reports whether the files are one script, and not the rows of tables: its name names no table, or its first
// statement creates something.
func (src *Source) isScript(ctx context.Context, files []string) bool {
	if len(files) != 1 {
		return false
	}
	if routeName(filepath.Base(files[0]), src.Database).role != roleRows {
		return true
	}
	f, err := newFile(files[0])
	if err != nil || f.Format != SQL {
		return false
	}
	creates, err := f.createsFirst(ctx)
	return err == nil && creates
}

// RowsFolder returns the folder that a server must read to load the files of the source by IMPORT INTO; "" for a script, whose
// rows are written to temporary files.
func (src *Source) RowsFolder(ctx context.Context) (string, error) {
	if len(src.Paths) == 0 {
		return "", errNothing
	}
	first, err := filepath.Abs(src.Paths[0])
	if err != nil {
		return "", err
	}
	info, err := os.Stat(first)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return first, nil
	case src.isScript(ctx, src.Paths):
		return "", nil
	}
	return filepath.Dir(first), nil
}

var errNothing = errors.New("nothing to load: name a folder or files")

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// choose drops what the filter does not let through, and the system's schemas.
func (d *Dump) choose(patterns []string) error {
	if !slices.ContainsFunc(patterns, func(p string) bool { return !strings.HasPrefix(p, "!") }) {
		patterns = append([]string{"*.*"}, patterns...)
	}
	f, err := filter.Parse(patterns)
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	f = filter.CaseInsensitive(f)
	unwanted := func(n Name) bool {
		return systemSchemas[n.Schema] || !f.MatchTable(n.Schema, n.Table)
	}
	d.Tables = slices.DeleteFunc(d.Tables, func(t *Table) bool { return unwanted(t.Name) })
	d.Views = slices.DeleteFunc(d.Views, func(o Object) bool { return unwanted(o.Name) })
	d.Sequences = slices.DeleteFunc(d.Sequences, func(o Object) bool { return unwanted(o.Name) })
	d.Databases = slices.DeleteFunc(d.Databases, func(o Object) bool { return systemSchemas[o.Name.Schema] || !f.MatchSchema(o.Name.Schema) })
	d.LeftOut = slices.DeleteFunc(d.LeftOut, func(l LeftOut) bool { return systemSchemas[l.Name.Schema] })
	if len(d.Tables)+len(d.Views)+len(d.Sequences)+len(d.Databases) == 0 {
		return errors.New("nothing to load: the dump has no table that the filter lets through")
	}
	return nil
}

// check parses all definitions and lists everything that TiDB cannot create, in one error.
func (d *Dump) check() error {
	p := parser.New()
	problems := []error{checkObjects(p, "database", d.Databases), checkObjects(p, "sequence", d.Sequences), checkObjects(p, "view", d.Views)}
	for _, t := range d.Tables {
		left, err := checkTable(p, t)
		d.LeftOut = append(d.LeftOut, left...)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// Bytes is the size of all data.
func (d *Dump) Bytes() (total int64) {
	for _, t := range d.Tables {
		total += t.Bytes()
	}
	return total
}

// largestFirst returns the tables with the largest first: the load ends when the last one ends.
func largestFirst(tables []*Table) []*Table {
	return slices.SortedStableFunc(slices.Values(tables), func(a, b *Table) int { return cmp.Compare(b.Bytes(), a.Bytes()) })
}
