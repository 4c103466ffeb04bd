package builder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/stretchr/testify/require"
)

func init() { collate.SetNewCollationEnabledForTest(true) }

// TestBuilder runs the transcripts in testdata. Commands:
//
//	create [nonclustered] [lax] [tz=Zone]   a CREATE TABLE, printed as it is stored
//	add-column [primary]                    an ADD COLUMN to "t (id int primary key)"
//	errors                                  statements, one a line, with their errors
func TestBuilder(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			env := testEnv(t, d)
			switch d.Cmd {
			case "create":
				tbl, err := create(env, d.Input)
				if err != nil {
					return errorText(err) + "\n"
				}
				return printTable(tbl) + printWarnings(env)
			case "add-column":
				col, err := addColumn(env, d.Input, d.HasArg("primary"))
				if err != nil {
					return errorText(err) + "\n"
				}
				return fmt.Sprintf("%s origin=%q\n", printColumn(col), fmt.Sprint(col.GetOriginDefaultValue())) + printWarnings(env)
			case "errors":
				var out strings.Builder
				for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
					_, err := create(env, line)
					fmt.Fprintln(&out, errorText(err))
				}
				return out.String()
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func testEnv(t *testing.T, d *datadriven.TestData) *Env {
	env := &Env{
		SQLMode:        mysql.ModeStrictTransTables | mysql.ModeNoZeroDate | mysql.ModeNoZeroInDate,
		ClusteredIndex: !d.HasArg("nonclustered"),
		Now:            time.Date(2024, 2, 29, 23, 30, 15, 999e6, time.UTC),
	}
	if d.HasArg("lax") {
		env.SQLMode = 0
	}
	if d.HasArg("tz") {
		var zone string
		d.ScanArgs(t, "tz", &zone)
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		env.Loc = loc
	}
	return env
}

var testDB = &model.DBInfo{Name: pmodel.NewCIStr("test"), Charset: "utf8mb4", Collate: "utf8mb4_bin"}

func create(env *Env, sql string) (*model.TableInfo, error) {
	stmt, err := parser.New().ParseOneStmt(sql, "", "")
	if err != nil {
		return nil, err
	}
	return NewTable(env, stmt.(*ast.CreateTableStmt), testDB)
}

func addColumn(env *Env, def string, inPrimaryKey bool) (*model.ColumnInfo, error) {
	tbl, err := create(env, "create table t (id int primary key)")
	if err != nil {
		return nil, err
	}
	stmt, err := parser.New().ParseOneStmt("alter table t add column "+def, "", "")
	if err != nil {
		return nil, err
	}
	return NewColumn(env, stmt.(*ast.AlterTableStmt).Specs[0].NewColumns[0], tbl, testDB, inPrimaryKey)
}

func errorText(err error) string {
	if err == nil {
		return "ok"
	}
	if te, ok := AsTerror(err); ok {
		return fmt.Sprintf("%d %s", te.Code(), te.GetMsg())
	}
	return err.Error()
}

var flagNames = []struct {
	flag uint
	name string
}{
	{mysql.NotNullFlag, "not_null"}, {mysql.PriKeyFlag, "pri"}, {mysql.UniqueKeyFlag, "uni"},
	{mysql.MultipleKeyFlag, "mul"}, {mysql.AutoIncrementFlag, "auto_inc"}, {mysql.OnUpdateNowFlag, "on_update_now"},
	{mysql.NoDefaultValueFlag, "no_default"}, {mysql.UnsignedFlag, "unsigned"}, {mysql.ZerofillFlag, "zerofill"},
	{mysql.BinaryFlag, "binary"},
}

func printColumn(col *model.ColumnInfo) string {
	s := fmt.Sprintf("%d@%d %s %s(%d,%d) %s", col.ID, col.Offset, col.Name.O, types.TypeStr(col.GetType()),
		col.GetFlen(), col.GetDecimal(), col.GetCollate())
	for _, f := range flagNames {
		if col.GetFlag()&f.flag != 0 {
			s += " " + f.name
		}
	}
	if v := col.GetDefaultValue(); v != nil {
		s += fmt.Sprintf(" default=%q", v)
	}
	if col.Comment != "" {
		s += fmt.Sprintf(" comment=%q", col.Comment)
	}
	return s
}

func printTable(tbl *model.TableInfo) string {
	handle := "rowid"
	switch {
	case tbl.PKIsHandle:
		handle = "int"
	case tbl.IsCommonHandle:
		handle = fmt.Sprintf("common v%d", tbl.CommonHandleVersion)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s v%d handle=%s max_col=%d max_idx=%d auto_inc=%d", tbl.Name.O, tbl.Collate, tbl.Version, handle,
		tbl.MaxColumnID, tbl.MaxIndexID, tbl.AutoIncID)
	if tbl.Comment != "" {
		fmt.Fprintf(&out, " comment=%q", tbl.Comment)
	}
	fmt.Fprintln(&out)
	for _, col := range tbl.Columns {
		fmt.Fprintf(&out, "  %s\n", printColumn(col))
	}
	for _, idx := range tbl.Indices {
		fmt.Fprintf(&out, "  index %d %s %s", idx.ID, idx.Name.O, idx.Tp)
		for _, f := range []struct {
			on   bool
			name string
		}{{idx.Primary, "primary"}, {idx.Unique, "unique"}, {idx.Invisible, "invisible"}} {
			if f.on {
				fmt.Fprintf(&out, " %s", f.name)
			}
		}
		for _, ic := range idx.Columns {
			fmt.Fprintf(&out, " %s@%d", ic.Name.O, ic.Offset)
			if ic.Length != types.UnspecifiedLength {
				fmt.Fprintf(&out, "(%d)", ic.Length)
			}
		}
		if idx.Comment != "" {
			fmt.Fprintf(&out, " comment=%q", idx.Comment)
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

func printWarnings(env *Env) string {
	var out strings.Builder
	for _, w := range env.Warnings {
		fmt.Fprintf(&out, "%s %d %s\n", w.Level, w.Code, w.Message)
	}
	return out.String()
}

// A definition survives being stored.
func TestDefinitionsAreStorable(t *testing.T) {
	env := &Env{ClusteredIndex: true}
	tbl, err := create(env, `create table t (a int auto_increment primary key, b bit(9) default b'101', c binary(4) default 'x',
		d enum('a','b') default 'b', e timestamp(3) default current_timestamp(3), key b (b))`)
	require.NoError(t, err)
	data, err := json.Marshal(tbl)
	require.NoError(t, err)
	var back model.TableInfo
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, printTable(tbl), printTable(&back))
}

func TestTableLike(t *testing.T) {
	src, err := create(&Env{ClusteredIndex: true}, "create table s (a int primary key auto_increment, b int, key b (b), key c (b, a)) auto_increment=7 comment 'x'")
	require.NoError(t, err)
	src.ID = 5
	src.Indices[1].State = model.StateWriteOnly
	like, err := NewTableLike(pmodel.NewCIStr("T2"), src)
	require.NoError(t, err)
	require.Zero(t, like.ID)
	require.Zero(t, like.AutoIncID)
	require.Len(t, like.Indices, 1, "what is not public is not copied")
	require.Equal(t, "x", like.Comment)
	like.Columns[0].Name = pmodel.NewCIStr("changed")
	require.Equal(t, "a", src.Columns[0].Name.O)
	_, err = NewTableLike(pmodel.NewCIStr(strings.Repeat("x", 65)), src)
	require.Error(t, err)
}

func TestDatabaseCharset(t *testing.T) {
	for _, tc := range []struct{ sql, want string }{
		{"create database d", "utf8mb4 utf8mb4_bin false"},
		{"create database d charset utf8mb4", "utf8mb4 utf8mb4_bin true"},
		{"create database d collate utf8mb4_general_ci", "utf8mb4 utf8mb4_general_ci true"},
		{"create database d charset latin1 collate latin1_bin", "latin1 latin1_bin true"},
		{"create database d charset latin1 collate utf8mb4_bin", "1253 COLLATION 'utf8mb4_bin' is not valid for CHARACTER SET 'latin1'"},
	} {
		stmt, err := parser.New().ParseOneStmt(tc.sql, "", "")
		require.NoError(t, err)
		cs, coll, said, err := DatabaseCharset(stmt.(*ast.CreateDatabaseStmt).Options)
		got := fmt.Sprintf("%s %s %v", cs, coll, said)
		if err != nil {
			got = errorText(err)
		}
		require.Equal(t, tc.want, got, tc.sql)
	}
}

func TestKeyFlags(t *testing.T) {
	tbl, err := create(&Env{ClusteredIndex: true}, "create table t (a int primary key, b int, c int, key b (b), key bc (b, c), unique key ub (b))")
	require.NoError(t, err)
	b := tbl.Columns[1]
	require.True(t, mysql.HasUniKeyFlag(b.GetFlag()) && mysql.HasMultipleKeyFlag(b.GetFlag()))
	DropKeyFlags(tbl, tbl.FindIndexByName("ub"))
	require.False(t, mysql.HasUniKeyFlag(b.GetFlag()))
	require.True(t, mysql.HasMultipleKeyFlag(b.GetFlag()), "other indexes begin with it")
	tbl.Indices = tbl.Indices[1:]
	tbl.FindIndexByName("ub").State = model.StateWriteOnly
	DropKeyFlags(tbl, tbl.FindIndexByName("bc"))
	require.False(t, mysql.HasMultipleKeyFlag(b.GetFlag()))
}
