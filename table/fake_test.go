package table

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/catalog"
	"fastddl/generated/generatedtest"
	"fastddl/kv"
)

// fakeTxn is a transaction over a map that remembers every write.
type fakeTxn struct {
	kv.Txn
	data map[string][]byte
	// writes holds the last write of each key: nil is a tombstone.
	writes    map[string][]byte
	unchecked map[string]bool
	undo      []map[string][]byte
}

func newFakeTxn() *fakeTxn {
	return &fakeTxn{data: map[string][]byte{}, writes: map[string][]byte{}, unchecked: map[string]bool{}}
}

func (t *fakeTxn) forget() { t.writes, t.unchecked = map[string][]byte{}, map[string]bool{} }

func (t *fakeTxn) Get(_ context.Context, key []byte) ([]byte, error) {
	v, ok := t.data[string(key)]
	if !ok {
		return nil, kv.ErrNotExist
	}
	return v, nil
}

func (t *fakeTxn) Set(key, value []byte, flags ...kv.KeyFlag) error {
	t.data[string(key)] = bytes.Clone(value)
	t.writes[string(key)] = bytes.Clone(value)
	t.unchecked[string(key)] = len(flags) > 0
	return nil
}

func (t *fakeTxn) Delete(key []byte, flags ...kv.KeyFlag) error {
	delete(t.data, string(key))
	if slices.Contains(flags, kv.Withdrawn) {
		delete(t.writes, string(key))
		return nil
	}
	t.writes[string(key)] = nil
	t.unchecked[string(key)] = len(flags) > 0
	return nil
}

func (t *fakeTxn) StartTS() uint64 { return 7 }

func (t *fakeTxn) Written(key []byte) bool {
	_, ok := t.writes[string(key)]
	return ok
}

func (t *fakeTxn) Checkpoint() kv.Checkpoint {
	t.undo = append(t.undo, maps.Clone(t.data), maps.Clone(t.writes))
	return kv.Checkpoint(len(t.undo) - 2)
}

func (t *fakeTxn) RevertTo(c kv.Checkpoint) { t.data, t.writes = t.undo[c], t.undo[c+1] }

func (t *fakeTxn) Iter(r kv.KeyRange) (kv.Iterator, error) { return t.iter(r, false), nil }

func (t *fakeTxn) IterReverse(r kv.KeyRange) (kv.Iterator, error) { return t.iter(r, true), nil }

func (t *fakeTxn) iter(r kv.KeyRange, reverse bool) kv.Iterator {
	it := &fakeIter{t: t}
	for k := range t.data {
		if r.Contains([]byte(k)) {
			it.keys = append(it.keys, k)
		}
	}
	slices.Sort(it.keys)
	if reverse {
		slices.Reverse(it.keys)
	}
	return it
}

// fakeIter overwrites what it returned as soon as it may.
type fakeIter struct {
	t          *fakeTxn
	keys       []string
	key, value []byte
}

func (it *fakeIter) Valid() bool { return len(it.keys) > 0 }

func (it *fakeIter) Key() []byte {
	it.key = append(it.key[:0], it.keys[0]...)
	return it.key
}

func (it *fakeIter) Value() []byte {
	it.value = append(it.value[:0], it.t.data[it.keys[0]]...)
	return it.value
}

func (it *fakeIter) Next() error {
	it.keys = it.keys[1:]
	for _, b := range [][]byte{it.key, it.value} {
		for i := range b {
			b[i] = 0xee
		}
	}
	return nil
}

func (it *fakeIter) Close() error { return nil }

// tableBuilder makes table definitions for tests.
type tableBuilder struct{ info *model.TableInfo }

func buildTable(name string) *tableBuilder {
	return &tableBuilder{&model.TableInfo{
		ID: 100, Name: pmodel.NewCIStr(name), Charset: "utf8mb4", Collate: "utf8mb4_bin",
		State: model.StatePublic, Version: model.CurrLatestTableInfoVersion,
	}}
}

func (b *tableBuilder) column(name string, ft *types.FieldType) *tableBuilder {
	b.info.MaxColumnID++
	b.info.Columns = append(b.info.Columns, &model.ColumnInfo{
		ID: b.info.MaxColumnID, Name: pmodel.NewCIStr(name), Offset: len(b.info.Columns),
		FieldType: *ft, State: model.StatePublic, Version: model.CurrLatestColumnInfoVersion,
	})
	return b
}

// generated makes the column added last one that is computed from others.
func (b *tableBuilder) generated(expr string, stored bool, from ...string) *tableBuilder {
	col := b.info.Columns[len(b.info.Columns)-1]
	col.GeneratedExprString, col.GeneratedStored, col.Dependences = expr, stored, make(map[string]struct{})
	for _, name := range from {
		col.Dependences[name] = struct{}{}
	}
	return b
}

// hidden makes the column added last the key part of an expression index.
func (b *tableBuilder) hidden(expr string, state model.SchemaState, from ...string) *tableBuilder {
	col := b.info.Columns[len(b.info.Columns)-1]
	col.Hidden, col.State = true, state
	return b.generated(expr, false, from...)
}

func (b *tableBuilder) index(name string, unique bool, state model.SchemaState, cols ...*model.IndexColumn) *tableBuilder {
	b.info.MaxIndexID++
	b.info.Indices = append(b.info.Indices, &model.IndexInfo{
		ID: b.info.MaxIndexID, Name: pmodel.NewCIStr(name), Table: b.info.Name,
		Columns: cols, Unique: unique, State: state,
	})
	return b
}

// clustered makes the columns the clustered primary key.
func (b *tableBuilder) clustered(cols ...*model.IndexColumn) *tableBuilder {
	for _, c := range cols {
		b.info.Columns[c.Offset].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
	}
	if len(cols) == 1 && mysql.IsIntegerType(b.info.Columns[cols[0].Offset].GetType()) {
		b.info.PKIsHandle = true
		return b
	}
	b.index("PRIMARY", true, model.StatePublic, cols...)
	b.info.Indices[len(b.info.Indices)-1].Primary = true
	b.info.IsCommonHandle, b.info.CommonHandleVersion = true, 1
	return b
}

func (b *tableBuilder) table(t testing.TB) *Table {
	t.Helper()
	return Of(&catalog.Table{
		DB: &model.DBInfo{ID: 1, Name: pmodel.NewCIStr("test")}, Info: b.info, Expressions: generatedtest.Compiler{},
	})
}

// tableWithout is the table where nobody can compute expressions.
func (b *tableBuilder) tableWithout(t testing.TB) *Table {
	t.Helper()
	return Of(&catalog.Table{DB: &model.DBInfo{ID: 1, Name: pmodel.NewCIStr("test")}, Info: b.info})
}

func ic(offset int) *model.IndexColumn {
	return &model.IndexColumn{Offset: offset, Length: types.UnspecifiedLength}
}

func prefix(offset, length int) *model.IndexColumn {
	return &model.IndexColumn{Offset: offset, Length: length}
}

func bigint() *types.FieldType { return types.NewFieldType(mysql.TypeLonglong) }

func unsigned() *types.FieldType {
	ft := bigint()
	ft.AddFlag(mysql.UnsignedFlag)
	return ft
}

func varchar(n int, collation string) *types.FieldType {
	ft := types.NewFieldType(mysql.TypeVarchar)
	ft.SetFlen(n)
	ft.SetCharset("utf8mb4")
	ft.SetCollate(collation)
	return ft
}

func row(values ...any) []types.Datum { return types.MakeDatums(values...) }
