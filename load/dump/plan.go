package dump

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Way is how the rows of a table are loaded.
type Way string

// The ways. WayAuto takes IMPORT INTO where the server can read the files, else INSERT.
const (
	WayAuto   Way = "auto"
	WayImport Way = "import"
	WayInsert Way = "insert"
)

// action is what is done with a table.
type action struct {
	table *Table
	// create says that the table is not on the server. empty says that rows of an earlier, interrupted load are removed first.
	// half says that it is, empty and not as the dump defines it: it is dropped, and created again.
	create, empty, half bool
	// done says that the rows are there already, or that there are none.
	done bool
	way  Way
	// why says why IMPORT INTO is not used where it was wanted.
	why string
}

// where says what the server can read.
type where struct {
	way   Way
	local bool
	// securePath is the folder whose files the server reads; "" for none.
	securePath string
	// spool is where the rows of a script are written for IMPORT INTO, "" if they cannot be; quota bounds them, in bytes.
	spool string
	quota int64
	// noSpool says why spool is empty.
	noSpool string
}

// planTables decides on each table: pure. All that stands against the load is in one error.
func planTables(d *Dump, c *catalog, before map[Name]progress, w where) ([]action, error) {
	var actions []action
	var problems []error
	for _, t := range d.Tables {
		a, err := planTable(t, c, before[t.Name], d, w)
		if err != nil {
			problems = append(problems, err)
		}
		actions = append(actions, a)
	}
	return actions, errors.Join(problems...)
}

func planTable(t *Table, c *catalog, before progress, d *Dump, w where) (action, error) {
	a := action{table: t}
	exists, filled := c.tables[t.Name.fold()], c.filled[t.Name.fold()]
	switch {
	case !exists && len(t.SQL) == 0:
		return a, fmt.Errorf("table %s is not on the server, and the dump has no definition of it", t.Name)
	case !exists:
		a.create = true
	case before == defining && !filled && len(t.SQL) > 0:
		a.create, a.half = true, true
	case before == loaded && filled: // if not, it was emptied since, or there are none: to load none again does no harm
		a.done = true
		return a, nil
	case before == importing && filled:
		a.done = true // by the import whose end was not seen: all or nothing
		return a, nil
	case before == inserting:
		a.empty = true
	case filled:
		return a, fmt.Errorf("table %s has rows already: drop it, empty it, or leave it out (--filter)", t.Name)
	}
	if t.Bytes() == 0 {
		a.done = true
		return a, nil
	}
	a.why = importObstacle(t, d, w)
	switch {
	case a.why == "":
		a.way = WayImport
	case w.way == WayImport:
		return a, fmt.Errorf("table %s cannot be loaded by IMPORT INTO: %s", t.Name, a.why)
	default:
		a.way = WayInsert
	}
	return a, nil
}

// importObstacle returns why IMPORT INTO cannot load a table, "" if it can.
func importObstacle(t *Table, d *Dump, w where) string {
	switch {
	case w.way == WayInsert:
		return "INSERT was asked for"
	case !w.local:
		return "the server is on another machine"
	case w.securePath == "":
		return "secure-file-priv of the server is not set"
	case t.rewritten() && d.Script == "":
		return "its rows have values of generated columns"
	case d.Script == "":
		return filesObstacle(t, w.securePath)
	case w.spool == "":
		return w.noSpool
	case t.section.runs > 1:
		return "its rows are not in one place of the file"
	case t.section.bytes > w.quota:
		return fmt.Sprintf("its %d bytes are more than the temporary files may have (--temp-quota)", t.section.bytes)
	}
	return ""
}

// filesObstacle returns why IMPORT INTO cannot read a table's files.
func filesObstacle(t *Table, securePath string) string {
	dir := filepath.Dir(t.Files[0].Path)
	if inside, err := filepath.Rel(securePath, dir); err != nil || inside == ".." || strings.HasPrefix(inside, "../") {
		return "its files are not below secure-file-priv of the server"
	}
	if strings.ContainsAny(dir, "%*?[\\#") {
		return "the folder has a name that IMPORT INTO cannot be given"
	}
	for _, f := range t.Files {
		if filepath.Dir(f.Path) != dir {
			return "its files are in several folders"
		}
		if f.linked {
			return "its files are links, which may lead out of secure-file-priv"
		}
		if f.Format == CSVFile && strings.EqualFold(filepath.Ext(f.Path), ".tsv") {
			return "IMPORT INTO reads no files named .tsv"
		}
	}
	if t.pattern == "" {
		return "its files have names that IMPORT INTO cannot be given"
	}
	return ""
}
