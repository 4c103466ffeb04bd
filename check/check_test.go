package check

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/catalog"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rows = 3000

// fixture is a table t(id, k, s) with rows 1..rows, an index k(k) and a unique
// index s(s).
type fixture struct {
	store kv.Store
	entry *catalog.Table
}

func newFixture(t *testing.T, commonHandle bool) *fixture {
	t.Helper()
	store, err := pebblekv.Open("db", pebblekv.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	col := func(i int, name string, tp byte) *model.ColumnInfo {
		c := &model.ColumnInfo{ID: int64(i + 1), Offset: i, Name: pmodel.NewCIStr(name), State: model.StatePublic,
			FieldType: *types.NewFieldType(tp)}
		if tp == mysql.TypeVarchar {
			c.SetCharset("utf8mb4")
			c.SetCollate("utf8mb4_general_ci")
			c.SetFlen(50)
		}
		return c
	}
	index := func(id int64, name string, unique bool, offsets ...int) *model.IndexInfo {
		idx := &model.IndexInfo{ID: id, Name: pmodel.NewCIStr(name), Unique: unique, State: model.StatePublic}
		for _, off := range offsets {
			idx.Columns = append(idx.Columns, &model.IndexColumn{Offset: off, Length: types.UnspecifiedLength})
		}
		return idx
	}
	info := &model.TableInfo{ID: 77, Name: pmodel.NewCIStr("t"), State: model.StatePublic,
		Columns: []*model.ColumnInfo{col(0, "id", mysql.TypeLonglong), col(1, "k", mysql.TypeLonglong), col(2, "s", mysql.TypeVarchar)},
		Indices: []*model.IndexInfo{index(1, "k", false, 1), index(2, "s", true, 2)},
	}
	info.Columns[0].AddFlag(mysql.PriKeyFlag)
	if commonHandle {
		info.Columns[2].AddFlag(mysql.PriKeyFlag)
		info.IsCommonHandle, info.CommonHandleVersion = true, 1
		primary := index(3, "PRIMARY", true, 2, 0)
		primary.Primary = true
		info.Indices = append(info.Indices, primary)
	} else {
		info.PKIsHandle = true
	}
	f := &fixture{store, &catalog.Table{DB: &model.DBInfo{ID: 1, Name: pmodel.NewCIStr("test")}, Info: info}}
	f.write(t, func(txn kv.Txn) error {
		for i := 1; i <= rows; i++ {
			if _, err := f.table().AddRecord(t.Context(), txn, f.row(i), table.AddOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	return f
}

func (f *fixture) table() *table.Table { return table.Of(f.entry) }

func (f *fixture) row(i int) []types.Datum {
	return types.MakeDatums(i, i%10, fmt.Sprintf("Name%d ", i))
}

func (f *fixture) write(t *testing.T, fn func(txn kv.Txn) error) {
	t.Helper()
	require.NoError(t, kv.Retrying(t.Context(), f.store, func(_ context.Context, txn kv.Txn) error { return fn(txn) }))
}

// pair returns the entry of row i in the n-th index.
func (f *fixture) pair(t *testing.T, n, i int) (key, value []byte) {
	t.Helper()
	h, err := f.table().HandleOf(f.row(i))
	require.NoError(t, err)
	key, value, _, err = f.table().IndexEntry(f.entry.Info.Indices[n], f.row(i), h)
	require.NoError(t, err)
	return key, value
}

func (f *fixture) check(t *testing.T) error {
	return Table(t.Context(), f.store, f.entry, Options{Workers: 2})
}

// Each kind of damage is found and named.
func TestDamageIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(t *testing.T, f *fixture, txn kv.Txn) error
		want   string
	}{
		"entry missing": {
			func(t *testing.T, f *fixture, txn kv.Txn) error {
				for _, i := range []int{1234, 2000, 2999} {
					key, _ := f.pair(t, 0, i)
					if err := txn.Delete(key); err != nil {
						return err
					}
				}
				return nil
			},
			`data inconsistency in table: t, index: k, handle: 1234, index-values:"" != record-values:"handle: 1234, values: [KindInt64 4]"`,
		},
		"row missing": {
			func(t *testing.T, f *fixture, txn kv.Txn) error {
				h, err := f.table().HandleOf(f.row(17))
				require.NoError(t, err)
				return txn.Delete(f.table().RecordKey(h))
			},
			`data inconsistency in table: t, index: k, handle: 17, index-values:"handle: 17, values: [KindInt64 7]" != record-values:""`,
		},
		"extra entry": {
			func(t *testing.T, f *fixture, txn kv.Txn) error {
				h, err := f.table().HandleOf(f.row(17))
				require.NoError(t, err)
				row := f.row(17)
				row[1].SetInt64(99)
				key, value, _, err := f.table().IndexEntry(f.entry.Info.Indices[0], row, h)
				require.NoError(t, err)
				return txn.Set(key, value)
			},
			`data inconsistency in table: t, index: k, handle: 17, index-values:"handle: 17, values: [KindInt64 99]" != record-values:"handle: 17, values: [KindInt64 7]"`,
		},
		"unique entry of another row": {
			func(t *testing.T, f *fixture, txn kv.Txn) error {
				key, _ := f.pair(t, 1, 5)
				_, value := f.pair(t, 1, 6)
				return txn.Set(key, value)
			},
			"index: s, handle: 6,",
		},
		"undecodable row": {
			func(t *testing.T, f *fixture, txn kv.Txn) error {
				h, err := f.table().HandleOf(f.row(3))
				require.NoError(t, err)
				return txn.Set(f.table().RecordKey(h), []byte{128, 0})
			},
			"decode row 3 of table t",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, false)
			require.NoError(t, f.check(t))
			f.write(t, func(txn kv.Txn) error { return tc.damage(t, f, txn) })
			require.ErrorContains(t, f.check(t), tc.want)
		})
	}
}

func TestOneIndex(t *testing.T) {
	f := newFixture(t, true)
	require.NoError(t, f.check(t))
	f.write(t, func(txn kv.Txn) error {
		key, _ := f.pair(t, 0, 5)
		return txn.Delete(key)
	})
	err := Index(t.Context(), f.store, f.entry, "K", Options{})
	require.True(t, ErrInconsistent.Equal(err), "%v", err)
	require.NoError(t, Index(t.Context(), f.store, f.entry, "s", Options{}))
	require.NoError(t, Index(t.Context(), f.store, f.entry, "PRIMARY", Options{}))
	require.True(t, ErrNoIndex.Equal(Index(t.Context(), f.store, f.entry, "nope", Options{})))
}

func TestChecksumCountsEverything(t *testing.T) {
	f := newFixture(t, true)
	before, err := Checksum(t.Context(), f.store, f.entry, Options{})
	require.NoError(t, err)
	require.Equal(t, uint64(3*rows), before.TotalKVs)
	f.write(t, func(txn kv.Txn) error {
		key, _ := f.pair(t, 0, 5)
		return txn.Delete(key)
	})
	after, err := Checksum(t.Context(), f.store, f.entry, Options{})
	require.NoError(t, err)
	require.Equal(t, before.TotalKVs-1, after.TotalKVs)
	require.NotEqual(t, before.CRC64XOR, after.CRC64XOR)
}

func TestCancelled(t *testing.T) {
	f := newFixture(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Table(ctx, f.store, f.entry, Options{}), context.Canceled)
}
