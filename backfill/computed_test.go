package backfill

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/catalog"
	"fastddl/generated"
	"fastddl/generated/generatedtest"
	"fastddl/kv"
	"fastddl/table"
)

// expressionTable has indexes on expressions, alone and mixed with columns, and
// on a virtual column that a hidden one depends on.
func expressionTable(clustered bool) *model.TableInfo {
	text := types.NewFieldType(mysql.TypeVarchar)
	text.SetFlen(20)
	text.SetCharset("utf8mb4")
	text.SetCollate("utf8mb4_general_ci")
	number := types.NewFieldType(mysql.TypeLonglong)
	tbl := &model.TableInfo{ID: 77, Name: pmodel.NewCIStr("t"), State: model.StatePublic}
	column := func(name string, ft *types.FieldType, expr, from string) *model.IndexColumn {
		col := &model.ColumnInfo{
			ID: int64(len(tbl.Columns) + 1), Name: pmodel.NewCIStr(name), Offset: len(tbl.Columns),
			FieldType: *ft.Clone(), State: model.StatePublic, GeneratedExprString: expr,
		}
		if expr != "" {
			col.Dependences = map[string]struct{}{from: {}}
			col.Hidden = name[0] == '_'
		}
		tbl.Columns = append(tbl.Columns, col)
		return &model.IndexColumn{Name: col.Name, Offset: col.Offset, Length: types.UnspecifiedLength}
	}
	id := column("id", number, "", "")
	c := column("c", text, "", "")
	n := column("n", number, "", "")
	v := column("v", number, "`n` + 1", "n")
	lower := column("_V$_i_0", text, "lower(`c`)", "c")
	twice := column("_V$_i_1", number, "`v` + 1", "v")
	half := column("_V$_h_0", number, "half(`n`)", "n")
	prefix := *c
	prefix.Length = 3
	index := func(name string, unique bool, cols ...*model.IndexColumn) {
		tbl.Indices = append(tbl.Indices, &model.IndexInfo{
			ID: int64(len(tbl.Indices) + 1), Name: pmodel.NewCIStr(name), Columns: cols, Unique: unique,
		})
	}
	tbl.Columns[id.Offset].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
	if clustered {
		tbl.Columns[c.Offset].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
		tbl.IsCommonHandle, tbl.CommonHandleVersion = true, 1
		index("PRIMARY", true, c, id)
		tbl.Indices[0].Primary, tbl.Indices[0].State = true, model.StatePublic
	} else {
		tbl.PKIsHandle = true
	}
	index("lower", false, lower)
	index("mixed", true, id, lower, n, twice, &prefix)
	index("v", false, v)
	index("half", false, half)
	return tbl
}

// fill inserts rows as they are before there are indexes.
func fill(t *testing.T, store kv.Store, info *model.TableInfo, rows [][]types.Datum) *catalog.Table {
	ct := &catalog.Table{DB: &model.DBInfo{}, Info: info, Expressions: generatedtest.Compiler{}}
	txn, err := store.Begin(t.Context())
	require.NoError(t, err)
	for _, r := range rows {
		_, err := table.Of(ct).AddRecord(t.Context(), txn, r, table.AddOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, txn.Commit(t.Context()))
	return ct
}

func TestExpressionIndexesHaveTheEntriesOfDML(t *testing.T) {
	r := newRand(t)
	for _, clustered := range []bool{false, true} {
		for name, run := range map[string]func(*fixture, Spec) error{
			"ingest": func(f *fixture, s Spec) error { _, err := Run(f.ctx, f.options(), s); return err },
			"transactional": func(f *fixture, s Spec) error {
				_, err := RunTransactional(f.ctx, f.options(), s)
				return err
			},
		} {
			t.Run(fmt.Sprintf("%s clustered=%v", name, clustered), func(t *testing.T) {
				info := expressionTable(clustered)
				f := newFixture(t, info, nil)
				rows := make([][]types.Datum, 3000)
				for i := range rows {
					rows[i] = types.MakeDatums(i, randomWord(r), randomNumber(r), nil)
				}
				ct := fill(t, f.store, info, rows)
				var building []*model.IndexInfo
				for _, idx := range info.Indices {
					if !idx.Primary {
						building = append(building, idx)
					}
				}
				spec := Spec{JobID: 1, Table: info, Indexes: building, Expressions: generatedtest.Compiler{}, TS: f.ts()}
				err := run(f, spec)
				require.NoError(t, err)
				for _, idx := range building {
					requireEntriesOfRows(t, f, ct, idx)
				}
				f.requireNoTempFiles()
			})
		}
	}
}

func randomWord(r *rand.Rand) string {
	letters := []rune("aAbBßéÉ  ")
	word := make([]rune, r.IntN(10))
	for i := range word {
		word[i] = letters[r.IntN(len(letters))]
	}
	return string(word)
}

// requireEntriesOfRows compares an index with what package table makes of the
// rows.
func requireEntriesOfRows(t *testing.T, f *fixture, ct *catalog.Table, idx *model.IndexInfo) {
	t.Helper()
	snap, err := f.store.Snapshot(f.ctx, f.ts())
	require.NoError(t, err)
	defer func() { require.NoError(t, snap.Close()) }()
	tbl := table.Of(ct)
	want := make(map[string]string)
	it, err := tbl.Reader(snap, nil, nil).Scan([]kv.KeyRange{tbl.RecordRange()}, false)
	require.NoError(t, err)
	for {
		h, row, err := it.Next(f.ctx)
		if err != nil {
			break
		}
		key, value, _, err := tbl.IndexEntry(idx, row, h)
		require.NoError(t, err)
		want[string(key)] = string(value)
	}
	require.NoError(t, it.Close())
	got := make(map[string]string)
	entries, err := snap.Iter(tbl.IndexRange(idx))
	require.NoError(t, err)
	for entries.Valid() {
		got[string(entries.Key())] = string(entries.Value())
		require.NoError(t, entries.Next())
	}
	require.NoError(t, entries.Close())
	require.Len(t, want, 3000)
	require.Equal(t, want, got, idx.Name.O)
}

func TestExpressionWithoutValueFailsTheBuild(t *testing.T) {
	info := expressionTable(false)
	f := newFixture(t, info, nil)
	fill(t, f.store, info, [][]types.Datum{types.MakeDatums(1, "a", 4, nil), types.MakeDatums(2, "b", -4, nil)})
	spec := Spec{JobID: 1, Table: info, Indexes: info.Indices[3:], Expressions: generatedtest.Compiler{}, TS: f.ts()}
	_, err := Run(f.ctx, f.options(), spec)
	var noValue *generated.ValueError
	require.ErrorAs(t, err, &noValue)
	require.ErrorIs(t, err, generatedtest.ErrNegative)
	require.ErrorContains(t, err, "for row 2")
	f.requireNoTempFiles()

	_, err = RunTransactional(f.ctx, f.options(), spec)
	require.ErrorIs(t, err, generatedtest.ErrNegative)

	spec.Expressions = nil
	_, err = Run(f.ctx, f.options(), spec)
	require.ErrorIs(t, err, generated.ErrNoCompiler)
}

func randomNumber(r *rand.Rand) any {
	if r.IntN(5) == 0 {
		return nil
	}
	return int64(r.IntN(50))
}
