package rows

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/stretchr/testify/require"
)

// TestRowsOfAFile shows how the package is used: a file becomes chunks, a reader of a chunk returns the
// pairs of each row.
func TestRowsOfAFile(t *testing.T) {
	s := statement{create: "create table t (a int primary key, b varchar(10), key (b))", files: map[string]string{"t.csv": "1,x\n2,\\N\n"}}
	source := s.open(t)
	require.Len(t, source.Chunks(), 1)
	require.EqualValues(t, 9, source.Bytes())
	r, err := source.NewReader(t.Context(), source.Chunks()[0], NewIDs(State{}))
	require.NoError(t, err)
	pairs, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Len(t, pairs, 2, "a record and an entry of the index")
	require.Equal(t, "1|x", rowText(t, source.table, pairs))
	require.NoError(t, r.Close())
}

// What others have got wrong: see each case.
func TestTraps(t *testing.T) {
	two := "create table t (a varchar(300000), b varchar(100))"
	csv := func(text string) map[string]string { return map[string]string{"t.csv": text} }
	sql := func(text string) map[string]string { return map[string]string{"t.sql": text} }
	noEscape := func(p *importer.Plan) { p.FieldsEscapedBy, p.FieldNullDef = "", []string{`\N`} }
	for _, c := range []struct {
		name string
		s    statement
		want []string
		code int // of the error
	}{
		{name: "NULL in an AUTO_INCREMENT key", s: statement{create: "create table t (id int primary key auto_increment, b varchar(9))", files: csv("\\N,a\n\\N,b\n")}, want: []string{"1|a", "2|b"}},
		{name: "NULL in an AUTO_INCREMENT key, in SQL", s: statement{create: "create table t (id int primary key auto_increment, b varchar(9))", format: "sql", files: sql("insert into t values (NULL,'a'),(null,'b');")}, want: []string{"1|a", "2|b"}},
		{name: "0 in an AUTO_INCREMENT key", s: statement{create: "create table t (id int primary key auto_increment, b varchar(9))", files: csv("0,a\n")}, want: []string{"1|a"}},
		{name: "0 in an AUTO_INCREMENT key, as a value", s: statement{create: "create table t (id int primary key auto_increment, b varchar(9))", files: csv("0,a\n"), mode: defaultMode | mysql.ModeNoAutoValueOnZero}, want: []string{"0|a"}},
		{name: "given and generated keys", s: statement{create: "create table t (id int primary key auto_increment, b varchar(9))", files: csv("2,x\n\\N,y\n7,z\n\\N,w\n")}, want: []string{"2|x", "3|y", "7|z", "8|w"}},
		{name: "the AUTO_INCREMENT column is not in the file", s: statement{create: "create table t (id int primary key auto_increment, b varchar(9))", columns: "(b)", files: csv("a\nb\n")}, want: []string{"1|a", "2|b"}},
		{name: "more rows than a TINYINT has keys", s: statement{create: "create table t (id tinyint primary key auto_increment, b int)", columns: "(b)", files: csv("1\n1\n"), ids: State{AutoIncrement: 126}}, want: []string{"127|1"}, code: mysql.ErrAutoincReadFailed},
		{name: "too many values in SQL", s: statement{create: "create table t (a int, b varchar(9), c int, d varchar(9))", format: "sql", files: sql("insert into t values (1,'n',100,'n','extra'),(2,'n',200)")}, code: mysql.ErrWrongValueCountOnRow},
		{name: "too few values in SQL", s: statement{create: "create table t (a int, b varchar(9), c int, d varchar(9))", format: "sql", files: sql("insert into t values (2,'n',200)")}, code: mysql.ErrWrongValueCountOnRow},
		{name: "columns in another order, in the statement", s: statement{create: two, columns: "(b, a)", files: csv("x,y\n")}, want: []string{"y|x"}},
		{name: "columns in another order, in INSERT", s: statement{create: two, format: "sql", files: sql("insert into t (`b`, `A`) values ('x','y'),('v','w'); insert into t values ('p','q')")}, want: []string{"y|x", "w|v", "p|q"}},
		{name: "an unknown column in INSERT", s: statement{create: two, format: "sql", files: sql("insert into t (a, zz) values ('x','y')")}, code: mysql.ErrBadField},
		{name: "a column twice in INSERT", s: statement{create: two, format: "sql", files: sql("insert into t (a, a) values ('x','y')")}, code: mysql.ErrFieldSpecifiedTwice},
		{name: "variables and SET", s: statement{create: two, columns: "(a, @v, @unused)", set: "b = concat(@V, '!')", files: csv("x,y,z\n\\N,\\N,z\n")}, want: []string{"x|y!", "NULL|NULL"}},
		{name: "quotes doubled, a quote of ' and no escape", s: statement{create: two, files: csv("'''','\"'\n'\"''\"',''\n"), plan: func(p *importer.Plan) { noEscape(p); p.FieldsEnclosedBy = "'" }}, want: []string{`'|"`, `"'"|`}},
		{name: "JSON in standard CSV, no escape", s: statement{create: "create table t (j json)", files: csv(`"{""k"": ""v\\n""}"` + "\n"), plan: noEscape}, want: []string{`{"k": "v\\n"}`}},
		{name: "JSON in standard CSV, with escape", s: statement{create: "create table t (j json)", files: csv(`"{""k"": ""v\\n""}"` + "\n")}, want: []string{`{"k": "v\n"}`}},
		{name: "a backslash before the closing quote, no escape", s: statement{create: two, files: csv(`"C:\",x` + "\n"), plan: noEscape}, want: []string{`C:\|x`}},
		{name: "line ends \\r\\n", s: statement{create: two, files: csv("a,b\r\nc,d\r\n")}, want: []string{"a|b", "c|d"}},
		{name: "line ends \\r", s: statement{create: two, files: csv("a,b\rc,d\r")}, want: []string{"a|b", "c|d"}},
		{name: "line ends |\\n", s: statement{create: two, files: csv("a|b|\nc|d|\n"), plan: func(p *importer.Plan) { p.FieldsTerminatedBy, p.LinesTerminatedBy = "|", "|\n" }}, want: []string{"a|b", "c|d"}},
		{name: "no line end at the end", s: statement{create: two, files: csv("a,b\nc,d")}, want: []string{"a|b", "c|d"}},
		{name: "an empty line", s: statement{create: two, files: csv("a,b\n\nc,d\n\n")}, want: []string{"a|b", "c|d"}},
		{name: "lines of spaces", s: statement{create: two, files: csv("  \na,b\n \t\nc,d\n  \n\n")}, want: []string{"a|b", "c|d"}},
		{name: "an empty text at the end", s: statement{create: "create table t (a varchar(9))", files: csv("x\n\"\"\n")}, want: []string{"x", ""}},
		{name: "a byte order mark", s: statement{create: two, files: csv("\ufeffa,b\n")}, want: []string{"a|b"}},
		{name: "NUL", s: statement{create: two, files: csv("a\x00c,\x00\n")}, want: []string{"a\x00c|\x00"}},
		{name: "four bytes of UTF-8 into utf8mb3", s: statement{create: "create table t (a varchar(9) charset utf8)", files: csv("x\n😀\n")}, want: []string{"x"}, code: mysql.ErrTruncatedWrongValueForField},
		{name: "bytes that are not UTF-8", s: statement{create: two, files: csv("x,y\n\xff\xfe,y\n")}, want: []string{"x|y"}, code: mysql.ErrTruncatedWrongValueForField},
		{name: "bytes that are not UTF-8 into binary columns", s: statement{create: "create table t (a varbinary(9), b blob)", files: csv("\xff\xfe,\xf0\n")}, want: []string{"\xff\xfe|\xf0"}},
		{name: "skipped rows", s: statement{create: two, files: csv("h1,h2\nx,y\n"), plan: func(p *importer.Plan) { p.IgnoreLines = 1 }}, want: []string{"x|y"}},
		{name: "too long", s: statement{create: "create table t (a varchar(2))", files: csv("xy\nxyz\n")}, want: []string{"xy"}, code: mysql.ErrDataTooLong},
		{name: "out of range", s: statement{create: "create table t (a tinyint)", files: csv("127\n128\n")}, want: []string{"127"}, code: mysql.ErrWarnDataOutOfRange},
		{name: "not a number", s: statement{create: "create table t (a int)", files: csv("12x\n")}, code: mysql.ErrTruncatedWrongValueForField},
		{name: "not a date", s: statement{create: "create table t (a date)", files: csv("2024-02-30\n")}, code: mysql.ErrTruncatedWrongValue},
		{name: "NULL into NOT NULL", s: statement{create: "create table t (a int not null)", files: csv("\\N\n")}, code: mysql.ErrBadNull},
		{name: "a column without a default", s: statement{create: "create table t (a int, b int not null)", columns: "(a)", files: csv("1\n")}, code: mysql.ErrNoDefaultForField},
		{name: "a default", s: statement{create: "create table t (a int, b int not null default 7, c varchar(9) default 'd')", columns: "(a)", files: csv("1\n")}, want: []string{"1|7|d"}},
		{name: "a generated column whose value is in the file", s: statement{create: "create table t (a int, b int as (a+1) stored, c int)", files: csv("1,junk,3\n")}, want: []string{"1|2|3"}},
		{name: "NULL for a generated column that takes none", s: statement{create: "create table t (a int, b int as (a+1) stored not null)", columns: "(a)", files: csv("\\N\n")}, code: mysql.ErrBadNull},
		{name: "an unterminated quote", s: statement{create: two, files: csv("a,b\n\"c,d\n")}, want: []string{"a|b"}},
		{name: "DEFAULT", s: statement{create: "create table t (id int primary key auto_increment, a varchar(9) default 'd')", format: "sql", files: sql("replace into db.t values (default,DEFAULT),(5,'default');")}, want: []string{"1|d", "5|default"}},
		{name: "character sets of literals", s: statement{create: "create table t (a varbinary(9), b varchar(9))", format: "sql", files: sql("insert into t values (_binary '\xff\\0',_utf8mb4'ä'),(_binary 0xfe, _latin1 'x')")}, want: []string{"\xff\x00|ä", "\xfe|x"}},
		{name: "text of another character set", s: statement{create: two, format: "sql", files: sql("insert into t values (_latin1 '\xe4','')")}, code: mysql.ErrUnknown},
		{name: "JSON of mydumper", s: statement{create: "create table t (j json)", format: "sql", files: sql("INSERT INTO `t` VALUES(CONVERT('{\"a\": \"\\\\n\"}' USING UTF8MB4));")}, want: []string{`{"a": "\n"}`}},
		{name: "escapes", s: statement{create: two, format: "sql", files: sql(`insert into t values ('\%\_\'\"\\\n\Z','it''s'),("a""b'",'')`)}, want: []string{`\%\_'"\` + "\n\x1a|it's", `a"b'|`}},
		{name: "no backslash escapes", s: statement{create: two, format: "sql", files: sql(`insert into t values ('\n\','x')`), mode: defaultMode | mysql.ModeNoBackslashEscapes}, want: []string{`\n\|x`}},
		{name: "numbers", s: statement{create: "create table t (a decimal(20,2), b double, c bigint unsigned, d bigint)", format: "sql", files: sql("insert into t values (-1.505,1e3,18446744073709551615,-9223372036854775808),(+2,.5,0,-- comment\n1)")}, want: []string{"-1.51|1000|18446744073709551615|-9223372036854775808", "2.00|0.5|0|1"}},
		{name: "a function", s: statement{create: two, format: "sql", files: sql("insert into t values ('x','y'),(now(),'')")}, want: []string{"x|y"}, code: mysql.ErrUnknown},
		{name: "rows of two tables", s: statement{create: two, format: "sql", files: sql("insert into t values ('x','y'); insert into u values ('x','y')")}, want: []string{"x|y"}, code: mysql.ErrUnknown},
		{name: "a statement that is not INSERT", s: statement{create: two, format: "sql", files: sql("delete from t;")}, code: mysql.ErrUnknown},
		{name: "statements cut off behind a comma", s: statement{create: two, format: "sql", files: sql("insert into t values ('x','y'),\n")}, want: []string{"x|y"}, code: mysql.ErrUnknown},
		{name: "statements cut off in a row", s: statement{create: two, format: "sql", files: sql("insert into t values ('x','y'),\n('v")}, want: []string{"x|y"}, code: mysql.ErrUnknown},
		{name: "statements cut off behind VALUES", s: statement{create: two, format: "sql", files: sql("insert into t values ")}, code: mysql.ErrUnknown},
		{name: "SQL of mysqldump", s: statement{create: "create table t (a varbinary(9), b bit(8), c varchar(9))", format: "sql", files: sql("-- MySQL dump\nDROP TABLE IF EXISTS `t`;\nCREATE TABLE `t` (a int comment 'x;(''y');\n/*!40101 SET NAMES binary */;\nSET NAMES binary;\nLOCK TABLES `t` WRITE;\n/*!40000 ALTER TABLE `t` DISABLE KEYS */;\nINSERT INTO `t` VALUES (0x6162,b'101','it''s'),(x'63',0b1,\"q\\\"\");\n/*!40000 ALTER TABLE `t` ENABLE KEYS */;\nUNLOCK TABLES;\n-- Dump completed\n")}, want: []string{"ab|\x05|it's", "c|\x01|q\""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, err := c.s.tryRead(t)
			require.Equal(t, c.want, rows)
			if c.code == mysql.ErrUnknown {
				var row *RowError
				require.ErrorAs(t, err, &row)
				require.True(t, row.Final)
			} else if c.code != 0 {
				requireCode(t, c.code, err)
			} else if c.name != "an unterminated quote" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "unterminated quoted field")
			}
		})
	}
}

// NULL and text that looks like it, with each setting of fields_defined_null_by: TiDB's CSV parser decides.
func TestNullsInCSV(t *testing.T) {
	const text = "NULL,\"NULL\"\n\\N,\"\\N\"\n,\"\"\n"
	s := statement{create: "create table t (a varchar(9), b varchar(9))", files: map[string]string{"t.csv": text}}
	require.Equal(t, []string{"NULL|NULL", "NULL|NULL", "|"}, s.read(t), "NULL as text and as such look alike here; see below")
	for null, want := range map[string][]bool{
		`\N`:   {false, false, true, true, false, false},
		"NULL": {true, true, false, false, false, false},
		"":     {false, false, false, false, true, true},
	} {
		s.plan = func(p *importer.Plan) { p.FieldNullDef = []string{null} }
		source := s.open(t)
		r, err := source.NewReader(t.Context(), source.Chunks()[0], NewIDs(State{}))
		require.NoError(t, err)
		var nulls []bool
		for range 3 {
			_, err := r.Next(t.Context())
			require.NoError(t, err)
			nulls = append(nulls, r.enc.row[0].IsNull(), r.enc.row[1].IsNull())
		}
		require.NoError(t, r.Close())
		require.Equal(t, want, nulls, "fields_defined_null_by %q", null)
	}
}

// An error names the file, the line and the column, and the reader goes on behind a row that is only wrong.
func TestErrorsNameTheRow(t *testing.T) {
	s := statement{create: "create table t (a int, b varchar(3))", files: map[string]string{"x.csv": "1,a\n\n2,\"b\nb\"\nx,c\n4,long\n5,d\n"}}
	source := s.open(t)
	r, err := source.NewReader(t.Context(), source.Chunks()[0], NewIDs(State{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var errs []string
	rows := 0
	for range 5 {
		if _, err := r.Next(t.Context()); err != nil {
			var row *RowError
			require.ErrorAs(t, err, &row)
			require.False(t, row.Final)
			errs = append(errs, err.Error())
		} else {
			rows++
		}
	}
	require.Equal(t, 3, rows)
	require.Equal(t, []string{
		"file x.csv, line 5, column a: [table:1366]Incorrect int value: 'x' for column 'a' at row 5",
		"file x.csv, line 6, column b: [types:1406]Data too long for column 'b' at row 6",
	}, errs)
}

// A compressed file that is cut off must not look like one that ends early.
func TestTruncatedCompressedFile(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	for i := range 20000 {
		fmt.Fprintf(w, "%d,%x\n", i, i*7919)
	}
	require.NoError(t, w.Close())
	whole := statement{create: "create table t (a int, b varchar(30))", path: "*.gz", files: map[string]string{"t.csv.gz": zipped.String()}}
	require.Len(t, whole.read(t), 20000)
	for _, cut := range []int{1, 8, 9, 100, zipped.Len() / 2} {
		whole.files["t.csv.gz"] = zipped.String()[:zipped.Len()-cut]
		_, err := whole.tryRead(t)
		require.ErrorContains(t, err, "cut off", "%d bytes are missing", cut)
	}
}
