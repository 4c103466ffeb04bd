package dump

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The files of MySQL Shell's dump as a whole: @.json describes it, @.done.json is written at its end.
const (
	shellMetadata = "@.json"
	shellDone     = "@.done.json"
	// shellMajor is the major version of the format that is read.
	shellMajor = "2."
)

// shellDump is @.json.
type shellDump struct {
	Version   string            `json:"version"`
	Schemas   []string          `json:"schemas"`
	Basenames map[string]string `json:"basenames"`
	Users     []string          `json:"users"`
	TZUTC     *bool             `json:"tzUtc"`
	Charset   string            `json:"defaultCharacterSet"`
}

// shellSchema is SCHEMA.json.
type shellSchema struct {
	IncludesDDL                   *bool             `json:"includesDdl"`
	IncludesViewsDDL              *bool             `json:"includesViewsDdl"`
	Tables, Views                 []string          // names
	Basenames                     map[string]string `json:"basenames"`
	Events, Functions, Procedures []string          // names
	Libraries                     []string          `json:"libraries"`
}

// shellTable is SCHEMA@TABLE.json.
type shellTable struct {
	Options struct {
		Columns                              []string
		DecodeColumns                        map[string]string
		Charset                              string `json:"defaultCharacterSet"`
		FieldsTerminatedBy, FieldsEnclosedBy *string
		FieldsEscapedBy, LinesTerminatedBy   *string
	} `json:"options"`
	Triggers     []string          `json:"triggers"`
	IncludesData *bool             `json:"includesData"`
	IncludesDDL  *bool             `json:"includesDdl"`
	Extension    string            `json:"extension"`
	Basenames    map[string]string `json:"basenames"` // of partitions
}

func isNo(b *bool) bool { return b != nil && !*b }

// shellReader reads a dump of MySQL Shell: util.dumpInstance, dumpSchemas and dumpTables.
type shellReader struct {
	dir   string
	meta  shellDump
	files []string
	dump  *Dump
}

func readShell(ctx context.Context, dir string) (*Dump, error) {
	if !exists(filepath.Join(dir, shellDone)) {
		return nil, fmt.Errorf("%s has no %s: the dump was not finished", dir, shellDone)
	}
	s := &shellReader{dir: dir, dump: &Dump{Format: "MySQL Shell"}}
	if err := s.decode(shellMetadata, &s.meta); err != nil {
		return nil, err
	}
	switch {
	case !strings.HasPrefix(s.meta.Version, shellMajor) && !strings.HasPrefix(s.meta.Version, "1."):
		return nil, fmt.Errorf("the dump of MySQL Shell has the format version %q: 1 and 2 are known", s.meta.Version)
	case s.meta.Charset != "" && s.meta.Charset != "utf8mb4":
		return nil, fmt.Errorf("the dump is in the character set %s: dump it again in utf8mb4", s.meta.Charset)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		s.files = append(s.files, e.Name())
	}
	if len(s.meta.Users) > 0 {
		s.dump.LeftOut = append(s.dump.LeftOut, LeftOut{Kind: fmt.Sprintf("%d users", len(s.meta.Users)), Reason: "accounts are the server's own; see @.users.sql"})
	}
	for _, schema := range s.meta.Schemas {
		if err := s.readSchema(ctx, schema); err != nil {
			return nil, err
		}
	}
	return s.dump, nil
}

func (s *shellReader) decode(file string, into any) error {
	text, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(s.dir, file), err)
	}
	return nil
}

func (s *shellReader) readSchema(ctx context.Context, name string) error {
	base := cmp.Or(s.meta.Basenames[name], name)
	var meta shellSchema
	if err := s.decode(base+".json", &meta); err != nil {
		return err
	}
	for kind, names := range map[string][]string{"event": meta.Events, "function": meta.Functions, "procedure": meta.Procedures, "library": meta.Libraries} {
		slices.Sort(names)
		for _, n := range names {
			s.dump.LeftOut = append(s.dump.LeftOut, LeftOut{Kind: kind, Name: Name{name, n}, Reason: notInTiDB})
		}
	}
	if file := base + ".sql"; !isNo(meta.IncludesDDL) && slices.Contains(s.files, file) {
		err := commands(ctx, filepath.Join(s.dir, file), func(c command, text string) error {
			if c.kind == kindDatabase {
				s.dump.Databases = append(s.dump.Databases, Object{Name: Name{Schema: name}, SQL: []string{text}})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, t := range meta.Tables {
		if err := s.readTable(ctx, Name{name, t}, cmp.Or(meta.Basenames[t], base+"@"+t)); err != nil {
			return err
		}
	}
	if isNo(meta.IncludesViewsDDL) || isNo(meta.IncludesDDL) {
		return nil
	}
	for _, v := range meta.Views {
		o := Object{Name: Name{name, v}}
		var err error
		if o.SQL, err = s.definition(ctx, cmp.Or(meta.Basenames[v], base+"@"+v)+".sql", kindView); err != nil {
			return err
		}
		s.dump.Views = append(s.dump.Views, o)
	}
	return nil
}

// definition returns the statements of one kind of a file; of a view the last one, which replaces its placeholder.
func (s *shellReader) definition(ctx context.Context, file string, want kind) (sql []string, err error) {
	err = commands(ctx, filepath.Join(s.dir, file), func(c command, text string) error {
		switch {
		case c.kind == want && want == kindView:
			sql = []string{text}
		case c.kind == want || want == kindTable && c.kind == kindAlter:
			sql = append(sql, text)
		}
		return nil
	})
	if err == nil && len(sql) == 0 {
		err = fmt.Errorf("%s creates nothing", filepath.Join(s.dir, file))
	}
	return sql, err
}

func (s *shellReader) readTable(ctx context.Context, name Name, base string) error {
	t := &Table{Name: name}
	var meta shellTable
	if err := s.decode(base+".json", &meta); err != nil {
		return err
	}
	for _, trigger := range meta.Triggers {
		s.dump.LeftOut = append(s.dump.LeftOut, LeftOut{Kind: "trigger", Name: Name{name.Schema, trigger}, Reason: notInTiDB})
	}
	if !isNo(meta.IncludesDDL) {
		var err error
		if t.SQL, err = s.definition(ctx, base+".sql", kindTable); err != nil {
			return err
		}
	}
	s.dump.Tables = append(s.dump.Tables, t)
	if isNo(meta.IncludesData) {
		return nil
	}
	o := meta.Options
	if o.Charset != "" && o.Charset != "utf8mb4" {
		return fmt.Errorf("table %s is in the character set %s: dump it again in utf8mb4", name, o.Charset)
	}
	t.CSV = CSV{
		TerminatedBy: or(o.FieldsTerminatedBy, "\t"), EnclosedBy: or(o.FieldsEnclosedBy, ""), EscapedBy: or(o.FieldsEscapedBy, `\`),
		LinesTerminatedBy: or(o.LinesTerminatedBy, "\n"), Null: `\N`, Header: HeaderNo, Columns: o.Columns, Decode: o.DecodeColumns,
	}
	for column, function := range t.CSV.Decode {
		if function != "FROM_BASE64" && function != "UNHEX" {
			return fmt.Errorf("table %s: column %s is encoded by %q, which is not known", name, column, function)
		}
	}
	if len(t.CSV.Columns) == 0 {
		return fmt.Errorf("table %s: %s names no columns", name, base+".json")
	}
	bases := []string{base}
	if len(meta.Basenames) > 0 {
		bases = bases[:0]
		for _, b := range meta.Basenames {
			bases = append(bases, b)
		}
		slices.Sort(bases)
	}
	for _, b := range bases {
		if err := s.addChunks(t, b, cmp.Or(meta.Extension, "tsv.zst")); err != nil {
			return err
		}
	}
	return nil
}

func or(text *string, otherwise string) string {
	if text == nil {
		return otherwise
	}
	return *text
}

// addChunks adds the files of a table or partition: BASE.EXT, or BASE@0.EXT, BASE@1.EXT and so on to BASE@@N.EXT.
func (s *shellReader) addChunks(t *Table, base, extension string) error {
	pattern, err := regexp.Compile(`^` + regexp.QuoteMeta(base) + `(?:@(@?)([0-9]+))?\.` + regexp.QuoteMeta(extension) + `$`)
	if err != nil {
		return err
	}
	found, last := 0, -1
	for _, name := range s.files {
		m := pattern.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		file, err := newFile(filepath.Join(s.dir, name))
		if err != nil {
			return err
		}
		if m[1] != "" {
			if _, err := fmt.Sscan(m[2], &last); err != nil {
				return fmt.Errorf("%s: %w", file.Path, err)
			}
		}
		if m[2] == "" {
			last = max(last, 0)
		}
		found++
		if s.meta.TZUTC == nil || *s.meta.TZUTC {
			file.settings.timeZone = "+00:00"
		}
		t.Files = append(t.Files, file)
	}
	if found == 0 && last < 0 || found != last+1 {
		return errors.Join(fmt.Errorf("table %s: %d of the files %s@*.%s were found, and the last one says %d: the dump is not complete", t.Name, found, base, extension, last+1))
	}
	return nil
}
