package dump

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Name is that of a table, a view or another object; of a database if Table is empty.
type Name struct{ Schema, Table string }

// String returns the name without quotes, for people.
func (n Name) String() string {
	if n.Table == "" {
		return n.Schema
	}
	return n.Schema + "." + n.Table
}

// sql returns the name for statements.
func (n Name) sql() string {
	if n.Table == "" {
		return quoteName(n.Schema)
	}
	return quoteName(n.Schema) + "." + quoteName(n.Table)
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Dump is what the files hold: definitions, and where the rows are.
type Dump struct {
	// Format names the program that wrote it.
	Format string
	// Databases are the statements that create databases. Sequences are created before tables, Views after them.
	Databases, Sequences, Views []Object
	// Tables are in the order of the dump.
	Tables []*Table
	// LeftOut are the objects that are not loaded, and why.
	LeftOut []LeftOut
	// Script is the file that holds the rows of all tables, "" if each table has files of its own.
	Script string
}

// Object is a database, a sequence or a view, and the statements that make it.
type Object struct {
	Name Name
	SQL  []string
}

// LeftOut is an object of the dump that is not loaded.
type LeftOut struct {
	Kind   string
	Name   Name
	Reason string
}

// String returns a line for people.
func (l LeftOut) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", l.Kind, l.Name)) + ": " + l.Reason
}

const notInTiDB = "TiDB has none"

// Table is a table of the dump.
type Table struct {
	Name Name
	// SQL creates it: CREATE TABLE, then changes of the definition. Empty if the dump has no definition; then the table must be
	// on the server.
	SQL []string
	// Files hold its rows; none if they are in the dump's Script.
	Files []File
	// CSV says how to read the files of a CSV table.
	CSV CSV
	// pattern matches the names of the files and no other of their folder, "" if no pattern does.
	pattern string
	// section is its part of the Script.
	section section
	// generated says that it has generated columns, unlisted that INSERT statements name no columns. MariaDB's dumps then have
	// values of generated columns, which are left out.
	generated, unlisted bool
}

// settings are those of the table's rows.
func (t *Table) settings() settings {
	if len(t.Files) > 0 {
		return t.Files[0].settings
	}
	return t.section.settings
}

// Bytes is the size of the table's data: of files, as they are on disk; of a script, of its statements.
func (t *Table) Bytes() int64 {
	total := t.section.bytes
	for _, f := range t.Files {
		total += f.Bytes
	}
	return total
}

// section is a table's part of a script.
type section struct {
	path  string // of the script
	bytes int64
	// runs is the number of uninterrupted runs of INSERT statements.
	runs     int
	settings settings
}

// Format is that of a data file, as IMPORT INTO names it.
type Format string

// The formats of data files.
const (
	SQL     Format = "sql"
	CSVFile Format = "csv"
	Parquet Format = "parquet"
)

// File is a file with rows.
type File struct {
	Path        string // absolute
	Format      Format
	Compression string // "", "gz", "zst" or "snappy"
	Bytes       int64
	settings    settings
	// linked says that it is a symbolic link.
	linked bool
}

// settings are what the header of a file with SQL sets for its session.
type settings struct {
	// timeZone is that of TIMESTAMP values, "" for the server's.
	timeZone string
	// binary says that strings are bytes, in the character set of their column (SET NAMES binary).
	binary bool
	// literalBackslash says that a backslash in a string is a character as any other.
	literalBackslash bool
}

// CSV says how CSV files are written; the names are those of IMPORT INTO's options.
type CSV struct {
	// TerminatedBy separates fields, EnclosedBy and EscapedBy may be empty.
	TerminatedBy, EnclosedBy, EscapedBy string
	// Null is how NULL is written.
	Null string
	// LinesTerminatedBy ends a row; empty for \n, \r\n or \r.
	LinesTerminatedBy string
	// Header says whether the first line of each file has the names of columns.
	Header Header
	// Columns are the fields' columns, if the dump says so and not by a header.
	Columns []string
	// Decode has the function for a column that is encoded: FROM_BASE64 or UNHEX.
	Decode map[string]string
}

// Header says whether the first line of a CSV file is data.
type Header int

// The values of Header. HeaderAuto takes a line for a header if all its fields are names of columns, each once.
const (
	HeaderAuto Header = iota
	HeaderNo
	HeaderYes
)

// DefaultCSV is how Dumpling writes CSV, and what IMPORT INTO reads by default.
func DefaultCSV() CSV {
	return CSV{TerminatedBy: ",", EnclosedBy: `"`, EscapedBy: `\`, Null: `\N`}
}

// fileFormat returns format and compression of a file by its name; false if it is none of a data file.
func fileFormat(path string) (Format, string, bool) {
	base := strings.ToLower(filepath.Base(path))
	compression := ""
	switch ext := filepath.Ext(base); ext {
	case ".gz", ".zst", ".snappy":
		compression = ext[1:]
		base = strings.TrimSuffix(base, ext)
	case ".gzip":
		compression, base = "gz", strings.TrimSuffix(base, ext)
	case ".zstd":
		compression, base = "zst", strings.TrimSuffix(base, ext)
	}
	switch filepath.Ext(base) {
	case ".sql":
		return SQL, compression, true
	case ".csv", ".tsv":
		return CSVFile, compression, true
	case ".parquet":
		return Parquet, compression, compression == ""
	}
	return "", "", false
}
