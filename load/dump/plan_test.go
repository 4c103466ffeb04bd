package dump

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// tableOf returns a table with a definition and one file of rows.
func tableOf(name string) *Table {
	return &Table{Name: Name{"d", name}, SQL: []string{"CREATE TABLE x"}, Files: []File{{Path: "/dump/d." + name + ".sql", Format: SQL, Bytes: 10}}, pattern: "d." + name + ".sql"}
}

var readable = where{way: WayAuto, local: true, securePath: "/dump"}

// TestPlanNeverTouchesForeignRows: by what is on the server and what an earlier run has noted, each table is loaded once,
// and rows that are not this load's are neither removed nor mixed.
func TestPlanNeverTouchesForeignRows(t *testing.T) {
	name := Name{"d", "t"}
	for what, tc := range map[string]struct {
		exists, filled bool
		before         progress
		want           action
		problem        string
	}{
		"not there":                                {want: action{create: true, way: WayImport}},
		"there and empty":                          {exists: true, want: action{way: WayImport}},
		"rows of others":                           {exists: true, filled: true, problem: "has rows already"},
		"loaded before":                            {exists: true, filled: true, before: loaded, want: action{done: true}},
		"loaded before, and dropped":               {before: loaded, want: action{create: true, way: WayImport}},
		"loaded before, and emptied":               {exists: true, before: loaded, want: action{way: WayImport}},
		"a definition that was interrupted":        {exists: true, before: defining, want: action{create: true, half: true, way: WayImport}},
		"rows of others in such a table":           {exists: true, filled: true, before: defining, problem: "has rows already"},
		"an import whose end was not seen":         {exists: true, filled: true, before: importing, want: action{done: true}},
		"an import that ended with nothing":        {exists: true, before: importing, want: action{way: WayImport}},
		"INSERTs that were interrupted":            {exists: true, filled: true, before: inserting, want: action{empty: true, way: WayImport}},
		"INSERTs that were interrupted before any": {exists: true, before: inserting, want: action{empty: true, way: WayImport}},
	} {
		t.Run(what, func(t *testing.T) {
			table := tableOf("t")
			c := &catalog{tables: map[Name]bool{name: tc.exists}, filled: map[Name]bool{name: tc.filled}}
			actions, err := planTables(&Dump{Tables: []*Table{table}}, c, map[Name]progress{name: tc.before}, readable)
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			tc.want.table = table
			require.Equal(t, []action{tc.want}, actions)
		})
	}
}

// TestPlanListsEveryProblem before anything is created.
func TestPlanListsEveryProblem(t *testing.T) {
	plain := tableOf("a")
	plain.SQL = nil
	c := &catalog{tables: map[Name]bool{{"d", "b"}: true}, filled: map[Name]bool{{"d", "b"}: true}}
	_, err := planTables(&Dump{Tables: []*Table{plain, tableOf("b"), tableOf("c")}}, c, nil, readable)
	require.EqualError(t, err, "table d.a is not on the server, and the dump has no definition of it\n"+
		"table d.b has rows already: drop it, empty it, or leave it out (--filter)")
}

func TestPlanChoosesTheWay(t *testing.T) {
	script := &Table{Name: Name{"d", "t"}, SQL: []string{"x"}, section: section{bytes: 100, runs: 1}}
	twice := &Table{Name: Name{"d", "t"}, SQL: []string{"x"}, section: section{bytes: 100, runs: 2}}
	tsv := tableOf("t")
	tsv.Files[0] = File{Path: "/dump/d@t.tsv", Format: CSVFile, Bytes: 1}
	unnamed := tableOf("t")
	unnamed.pattern = ""
	spooling := where{way: WayAuto, local: true, securePath: "/dump", spool: "/dump", quota: 100}
	small := spooling
	small.quota = 99
	nowhere := spooling
	nowhere.spool, nowhere.noSpool = "", "no room"
	for what, tc := range map[string]struct {
		table *Table
		where where
		why   string
	}{
		"files":                       {tableOf("t"), readable, ""},
		"INSERT asked for":            {tableOf("t"), where{way: WayInsert, local: true, securePath: "/dump"}, "INSERT was asked for"},
		"another machine":             {tableOf("t"), where{way: WayAuto, securePath: "/dump"}, "the server is on another machine"},
		"no files for the server":     {tableOf("t"), where{way: WayAuto, local: true}, "secure-file-priv of the server is not set"},
		"another folder":              {tableOf("t"), where{way: WayAuto, local: true, securePath: "/dumps"}, "its files are not below secure-file-priv of the server"},
		"tsv":                         {tsv, readable, "IMPORT INTO reads no files named .tsv"},
		"no pattern":                  {unnamed, readable, "its files have names that IMPORT INTO cannot be given"},
		"script":                      {script, spooling, ""},
		"script, two places":          {twice, spooling, "its rows are not in one place of the file"},
		"script, quota":               {script, small, "its 100 bytes are more than the temporary files may have (--temp-quota)"},
		"script, no temporary folder": {script, nowhere, "no room"},
	} {
		t.Run(what, func(t *testing.T) {
			d := &Dump{Tables: []*Table{tc.table}}
			if tc.table.section.runs > 0 {
				d.Script = "/x.sql"
			}
			actions, err := planTables(d, &catalog{}, nil, tc.where)
			require.NoError(t, err)
			require.Equal(t, tc.why, actions[0].why)
			require.Equal(t, tc.why == "", actions[0].way == WayImport)
			tc.where.way = WayImport
			if _, err = planTables(d, &catalog{}, nil, tc.where); tc.why != "" && what != "INSERT asked for" {
				require.ErrorContains(t, err, "table d.t cannot be loaded by IMPORT INTO: "+tc.why)
			}
		})
	}
}

func TestImportStatements(t *testing.T) {
	csv := tableOf("t")
	csv.CSV, csv.Files[0].Format, csv.Files[0].Path, csv.pattern = DefaultCSV(), CSVFile, "/du'mp/d.t.1.csv", "d.t.*.csv"
	require.Equal(t, "IMPORT INTO `d`.`t` (`a``b`, `c`) FROM '/du''mp/d.t.*.csv' FORMAT 'csv' WITH fields_terminated_by=',', fields_enclosed_by='\"', fields_escaped_by='\\\\',"+
		" fields_defined_null_by='\\\\N', skip_rows=1", importSQL(csv, fields{columns: []string{"a`b", "c"}, skipHeader: true}))
	require.Equal(t, "IMPORT INTO `d`.`u` FROM '/dump/d.u.sql' FORMAT 'sql'", importSQL(tableOf("u"), fields{}))
	csv.CSV.Decode, csv.CSV.LinesTerminatedBy = map[string]string{"c": "FROM_BASE64"}, "\n"
	require.Contains(t, importSQL(csv, fields{columns: []string{"a", "c"}}), "(`a`, @encoded1) SET `c` = FROM_BASE64(@encoded1) FROM")
	require.Contains(t, importSQL(csv, fields{}), `, lines_terminated_by='\n'`)
}

// TestHeaderIsTakenForOne only if all its fields are columns, each once.
func TestHeaderIsTakenForOne(t *testing.T) {
	columns := []column{{name: "id"}, {name: "Name"}, {name: "both", generated: true}}
	for _, tc := range []struct {
		first   []string
		header  Header
		want    fields
		problem string
	}{
		{[]string{"name", "ID"}, HeaderAuto, fields{columns: []string{"name", "ID"}, skipHeader: true}, ""},
		{[]string{"name"}, HeaderYes, fields{columns: []string{"name"}, skipHeader: true}, ""},
		{[]string{"name", "ID"}, HeaderNo, fields{columns: []string{"id", "Name"}}, ""},
		{[]string{"1", "x"}, HeaderAuto, fields{columns: []string{"id", "Name"}}, ""},
		{[]string{"1", "x", "1x"}, HeaderAuto, fields{}, ""},
		{[]string{"name", "zz"}, HeaderYes, fields{}, `the header names "zz", which is no column of the table`},
		{[]string{"name", "name"}, HeaderYes, fields{}, `the header names "name" twice`},
		{[]string{"name", "name"}, HeaderAuto, fields{columns: []string{"id", "Name"}}, ""},
		{nil, HeaderYes, fields{}, ""},
	} {
		got, err := fieldsOf(tc.first, columns, tc.header)
		if tc.problem != "" {
			require.EqualError(t, err, tc.problem)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.want, got, "%v", tc.first)
	}
}

func TestSessionsFitTheRows(t *testing.T) {
	table := tableOf("t")
	require.Equal(t, []string{"USE `d`", "SET NAMES utf8mb4", "SET time_zone = DEFAULT", "SET sql_mode = '" + sqlMode + "'"}, sessionSQL(table, ""))
	require.Contains(t, sessionSQL(table, "+02:00"), "SET time_zone = '+02:00'")
	table.Files[0].settings = settings{timeZone: "+00:00", binary: true, literalBackslash: true}
	require.Equal(t, []string{"USE `d`", "SET NAMES binary", "SET time_zone = '+00:00'", "SET sql_mode = '" + sqlMode + ",NO_BACKSLASH_ESCAPES'"}, sessionSQL(table, "+02:00"))
}

func TestLocalTargets(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:4000": true, "localhost:4000": true, "[::1]:4000": true, "/tmp/x.sock": true, "10.0.0.1:4000": false, "db:4000": false, "": false,
	} {
		require.Equal(t, want, (&Target{Addr: addr}).local(), addr)
	}
}

// TestImportsOfAnEarlierLoadAreWaitedFor: until they end it is not known whether their tables are loaded.
func TestImportsOfAnEarlierLoadAreWaitedFor(t *testing.T) {
	before := map[Name]progress{{"d", "a"}: importing, {"d", "b"}: loaded}
	for _, tc := range []struct {
		job  importJob
		want string
	}{
		{importJob{target: "`d`.`a`", status: "running"}, "`d`.`a`"},
		{importJob{target: "`d`.`a`", status: "pending"}, "`d`.`a`"},
		{importJob{target: "`d`.`a`", status: "finished"}, ""},
		{importJob{target: "`d`.`a`", status: "cancelled"}, ""},
		{importJob{target: "`d`.`b`", status: "running"}, ""},
		{importJob{target: "`d`.`c`", status: "running"}, ""},
	} {
		require.Equal(t, tc.want, activeImport([]importJob{tc.job}, before), "%+v", tc.job)
	}
}
