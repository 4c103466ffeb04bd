package genexpr_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/builder"
	"fastddl/generated"
	"fastddl/sql/genexpr"
	"fastddl/sql/sqlerr"
)

const columns = `id bigint primary key, a int, u bigint unsigned, s varchar(20) collate utf8mb4_general_ci,
	b varbinary(10), d decimal(10,3), f double, t datetime(3), day date, j json, x text, e enum('aa','b')`

func define(t testing.TB, more string) *model.TableInfo {
	t.Helper()
	info, err := tryDefine(columns + more)
	require.NoError(t, err)
	return info
}

func tryDefine(columns string) (*model.TableInfo, error) {
	stmt, err := parser.New().ParseOneStmt("create table t ("+columns+")", "", "")
	if err != nil {
		return nil, err
	}
	db := &model.DBInfo{Name: pmodel.NewCIStr("test"), Charset: "utf8mb4", Collate: "utf8mb4_bin"}
	env := &builder.Env{SQLMode: mysql.ModeStrictTransTables, ClusteredIndex: true, Expressions: genexpr.New()}
	return builder.NewTable(env, stmt.(*ast.CreateTableStmt), db)
}

// The types of the hidden columns that expressions become.
func TestTypesOfExpressions(t *testing.T) {
	for _, tc := range []struct{ expr, want string }{
		{"lower(s)", "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"},
		{"concat(s, '-', a)", "varchar(88) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"},
		{"left(x, 12)", "varchar(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"},
		{"cast(j->>'$.name' as char(30))", "varchar(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"},
		{"md5(s)", "varchar(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"},
		{"a + 1", "bigint(20) BINARY"},
		{"u | 1", "bigint(20) UNSIGNED BINARY"},
		{"a > 5", "bigint(20) BINARY"},
		{"f * 2", "double BINARY"},
		{"date(t)", "date BINARY"},
		{"year(day)", "bigint(20) BINARY"},
		{"substring(b, 2, 4)", "varbinary(4) BINARY"},
		{"d * 2", "decimal(30,3) BINARY"},
		{"a / 3", "decimal(65,4) BINARY"},
		{"json_length(j)", "bigint(20) BINARY"},
	} {
		t.Run(tc.expr, func(t *testing.T) {
			tbl := define(t, ", key i (("+tc.expr+"))")
			col := tbl.Columns[len(tbl.Columns)-1]
			require.True(t, col.Hidden)
			require.Equal(t, "_V$_i_0", col.Name.O)
			require.Equal(t, tc.want, col.FieldType.String())
		})
	}
}

func TestRefusedExpressions(t *testing.T) {
	for expr, code := range map[string]uint16{
		"j->'$.a'":                       3753,
		"x":                              3762,
		"(s)":                            3762,
		"upper(x)":                       3757,
		"nosuch(a)":                      1305,
		"nosuch + 1":                     1054,
		"rand()":                         3758,
		"a + rand()":                     3758,
		"now()":                          3758,
		"concat(s, uuid())":              3758,
		"a + @x":                         3758,
		"a + @@max_connections":          3758,
		"(select 1) + a":                 3758,
		"sum(a)":                         1111,
		"(a, u) = (1, 2)":                3800,
		"1 + 1":                          8200,
		"concat(repeat(s, 100), 'x')":    1071,
		"from_unixtime(a)":               3758,
		"row_number() over (order by a)": 3593,
	} {
		_, err := tryDefine(columns + ", key i ((" + expr + "))")
		require.Error(t, err, expr)
		require.EqualValues(t, code, sqlerr.Translate(err).Num, "%s: %v", expr, err)
	}
	for columns, code := range map[string]uint16{
		"id int primary key auto_increment, key i ((id + 1))":  3754,
		"id int primary key auto_increment, g int as (id + 1)": 3109,
		"id int, primary key ((id + 1))":                       3756,
		"a int, g int as (h + 1), h int as (a + 1)":            3107,
		"a int, g int as (g + 1)":                              3107,
		"a int, g int as (rand())":                             3102,
		"a int, g int as (a) default 3":                        1221,
		"a int, g int as (a) primary key":                      3106,
		"a int, g int as (nosuch)":                             1054,
		"a int, g int as ((a, 1) = (1, 1))":                    3764,
		"a timestamp, key i ((date(a)))":                       8200,
	} {
		_, err := tryDefine(columns)
		require.Error(t, err, columns)
		require.EqualValues(t, code, sqlerr.Translate(err).Num, "%s: %v", columns, err)
	}
}

func compile(t testing.TB, tbl *model.TableInfo) *generated.Plan {
	t.Helper()
	cols, err := generated.Compile(tbl, genexpr.New())
	require.NoError(t, err)
	all := make([]int, len(tbl.Columns))
	for i := range all {
		all[i] = i
	}
	return cols.Virtual(all)
}

// Values are those of a strict session in UTC, converted to the column's type.
func TestValues(t *testing.T) {
	tbl := define(t, `, lo varchar(20) as (lower(s)), n tinyint as (a * 2), short varchar(3) as (s),
		q decimal(6,2) as (a / 3), back varchar(20) as (concat('\\', s, '''')), dbl bigint as (n + 1)`)
	plan := compile(t, tbl)
	row := make([]types.Datum, len(tbl.Columns))
	fill := func(a int64, s string) error {
		row[1], row[3] = types.NewIntDatum(a), types.NewStringDatum(s)
		return plan.Fill(row)
	}
	at := func(name string) *types.Datum { return &row[model.FindColumnInfo(tbl.Columns, name).Offset] }

	require.NoError(t, fill(7, "AbC"))
	require.Equal(t, "abc", mustString(t, at("lo")))
	require.Equal(t, int64(14), at("n").GetInt64())
	require.Equal(t, int64(15), at("dbl").GetInt64())
	require.Equal(t, "2.33", mustString(t, at("q")))
	require.Equal(t, `\AbC'`, mustString(t, at("back")))

	err := fill(100, "AbC")
	require.EqualValues(t, 1264, sqlerr.Translate(err).Num, "%v", err)
	err = fill(1, "AbCd")
	require.EqualValues(t, 1406, sqlerr.Translate(err).Num, "%v", err)

	row[1].SetNull()
	row[3].SetNull()
	require.NoError(t, plan.Fill(row))
	for _, name := range []string{"lo", "n", "short", "q", "back", "dbl"} {
		d := at(name)
		require.True(t, d.IsNull(), name)
	}
}

func mustString(t *testing.T, d *types.Datum) string {
	t.Helper()
	s, err := d.ToString()
	require.NoError(t, err)
	return s
}

func TestInvalidJSONText(t *testing.T) {
	tbl := define(t, ", key i ((cast(json_extract(s, '$.a') as signed)))")
	plan := compile(t, tbl)
	row := make([]types.Datum, len(tbl.Columns))
	row[3] = types.NewStringDatum(`{"a": 17}`)
	require.NoError(t, plan.Fill(row))
	require.Equal(t, int64(17), row[len(row)-1].GetInt64())
	row[3] = types.NewStringDatum("{")
	err := plan.Fill(row)
	require.EqualValues(t, 3141, sqlerr.Translate(err).Num, "%v", err)
}

func TestConcurrentEvaluation(t *testing.T) {
	tbl := define(t, ", key i ((replace(s, '1', 'x')), (lower(s)), (a + 1))")
	plan := compile(t, tbl)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 200 {
				row := make([]types.Datum, len(tbl.Columns))
				row[1], row[3] = types.NewIntDatum(int64(i)), types.NewStringDatum(fmt.Sprintf("A%dB%d", g, i))
				if plan.Fill(row) != nil || row[len(row)-1].GetInt64() != int64(i+1) || row[len(row)-2].GetString() != fmt.Sprintf("a%db%d", g, i) {
					t.Errorf("wrong values %v", row)
				}
			}
		}()
	}
	wg.Wait()
}

func BenchmarkEval(b *testing.B) {
	tbl := define(b, ", key i ((lower(s)))")
	plan := compile(b, tbl)
	row := make([]types.Datum, len(tbl.Columns))
	row[3] = types.NewStringDatum("Some Text")
	b.ReportAllocs()
	for b.Loop() {
		if err := plan.Fill(row); err != nil {
			b.Fatal(err)
		}
	}
}
