package backfilltest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// Fixture is a table in a store of its own.
type Fixture struct {
	T     testing.TB
	Ctx   context.Context
	Store *pebblekv.Store
	Temp  string

	Table *model.TableInfo
	Kinds []ColumnType
	Rows  map[string]Row // by record key
	Next  int64
}

// Row is a row of the table.
type Row struct {
	Handle tkv.Handle
	Values []types.Datum
}

// NewFixture returns a table without rows.
func NewFixture(t testing.TB, table *model.TableInfo, kinds []ColumnType) *Fixture {
	return NewFixtureOn(t, nil, table, kinds)
}

// NewFixtureOn is newFixture with a store on a file system; nil is the operating system's.
func NewFixtureOn(t testing.TB, fs vfs.FS, table *model.TableInfo, kinds []ColumnType) *Fixture {
	store, err := pebblekv.Open(filepath.Join(t.TempDir(), "db"), pebblekv.Options{DisableSync: true, CacheBytes: 64 << 20, FS: fs})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &Fixture{
		T: t, Ctx: context.Background(), Store: store, Temp: filepath.Join(t.TempDir(), "tmp"),
		Table: table, Kinds: kinds, Rows: make(map[string]Row),
	}
}

// Insert adds n random rows in one transaction. Rows whose key is taken are
// left out.
func (f *Fixture) Insert(r *rand.Rand, n int) {
	var c Changes
	for range n {
		f.Next++
		values := RandomRow(r, f.Table, f.Kinds)
		h := RowHandle(f.T, f.Table, values, f.Next)
		key := string(tablecodec.EncodeRowKeyWithHandle(f.Table.ID, h))
		if _, ok := f.Rows[key]; ok {
			continue
		}
		c.Put([]byte(key), f.EncodeRow(values))
		f.Rows[key] = Row{h, values}
	}
	f.Commit(c)
}

// Changes are keys with their new values, in order; nil is a tombstone.
type Changes []struct{ key, value []byte }

// Put gives a key a value.
func (c *Changes) Put(key, value []byte) {
	*c = append(*c, struct{ key, value []byte }{key, value})
}

// Delete deletes a key.
func (c *Changes) Delete(key []byte) { c.Put(key, nil) }

// Commit writes changes at one timestamp, over what was written meanwhile.
func (f *Fixture) Commit(c Changes) {
	f.T.Helper()
	last := make(map[string][]byte, len(c))
	for _, change := range c {
		last[string(change.key)] = change.value
	}
	applied, err := f.Store.Apply(f.Ctx, func(yield func(key, value []byte) bool) {
		for key, value := range last {
			if !yield([]byte(key), value) {
				return
			}
		}
	}, pebblekv.ApplyOptions{})
	require.NoError(f.T, err)
	require.NoError(f.T, applied.Wait())
}

// EncodeRow encodes a row as TiDB stores it: without the columns that the
// handle holds.
func (f *Fixture) EncodeRow(values []types.Datum) []byte {
	var ids []int64
	var stored []types.Datum
	for i, col := range f.Table.Columns {
		if !mysql.HasPriKeyFlag(col.GetFlag()) || f.Table.IsCommonHandle && types.NeedRestoredData(&col.FieldType) || f.prefixedHandle(i) {
			ids = append(ids, col.ID)
			stored = append(stored, values[i])
		}
	}
	enc := rowcodec.Encoder{Enable: true}
	b, err := tablecodec.EncodeRow(time.UTC, stored, ids, nil, nil, rowcodec.NoChecksum{}, &enc)
	require.NoError(f.T, err)
	return b
}

func (f *Fixture) prefixedHandle(offset int) bool {
	if !f.Table.IsCommonHandle {
		return false
	}
	for _, ic := range tables.FindPrimaryIndex(f.Table).Columns {
		if ic.Offset == offset && ic.Length != types.UnspecifiedLength {
			return true
		}
	}
	return false
}

// TS returns the current timestamp.
func (f *Fixture) TS() uint64 {
	ts, err := f.Store.CurrentTS(f.Ctx)
	require.NoError(f.T, err)
	return ts
}

// WantEntries is the naive index: every row through the library.
func (f *Fixture) WantEntries(idx *model.IndexInfo) map[string]string {
	want := make(map[string]string)
	for _, row := range f.Rows {
		key, value, _ := LibraryEntry(f.T, f.Table, idx, row.Values, row.Handle)
		want[string(key)] = string(value)
	}
	return want
}

// EntriesAt reads an index at a timestamp.
func (f *Fixture) EntriesAt(idx *model.IndexInfo, ts uint64) map[string]string {
	snap, err := f.Store.Snapshot(f.Ctx, ts)
	require.NoError(f.T, err)
	defer snap.Close()
	iter, err := snap.Iter(entriesOf(f.Table.ID, idx.ID))
	require.NoError(f.T, err)
	defer iter.Close()
	got := make(map[string]string)
	for iter.Valid() {
		got[string(iter.Key())] = string(iter.Value())
		require.NoError(f.T, iter.Next())
	}
	return got
}

// RequireIndex compares an index at ts with what the library makes of the rows.
func (f *Fixture) RequireIndex(idx *model.IndexInfo, ts uint64, msg string) {
	RequireEntries(f.T, f.WantEntries(idx), f.EntriesAt(idx, ts), msg)
}

// RequireEntries compares two indexes and names the first few differences.
func RequireEntries(t testing.TB, want, got map[string]string, msg string) {
	var diffs []string
	for k, v := range want {
		if g, ok := got[k]; !ok {
			diffs = append(diffs, fmt.Sprintf("missing %x = %x", k, v))
		} else if g != v {
			diffs = append(diffs, fmt.Sprintf("%x = %x, want %x", k, g, v))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			diffs = append(diffs, fmt.Sprintf("too many %x = %x", k, v))
		}
	}
	sort.Strings(diffs)
	if len(diffs) > 0 {
		require.Failf(t, "index differs", "%s: %d differences, %q", msg, len(diffs), diffs[:min(5, len(diffs))])
	}
}

// RequireNoTempFiles checks that the folder of temporary files is empty, after builds that failed too.
func (f *Fixture) RequireNoTempFiles() {
	var left []string
	err := filepath.WalkDir(f.Temp, func(path string, _ os.DirEntry, err error) error {
		if path != f.Temp {
			left = append(left, path)
		}
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(f.T, err)
	}
	require.Empty(f.T, left, "files are left in the temp folder")
}

// PlainTable is a table like sysbench's: id INT PRIMARY KEY, k INT, c CHAR(120),
// pad CHAR(60).
func PlainTable() (*model.TableInfo, []ColumnType) {
	kinds := []ColumnType{KindNamed("bigint"), KindNamed("int"), KindNamed("char utf8mb4_bin"), KindNamed("char utf8mb4_bin")}
	t := &model.TableInfo{ID: 100, PKIsHandle: true, State: model.StatePublic}
	for i, k := range kinds {
		t.Columns = append(t.Columns, &model.ColumnInfo{ID: int64(i + 1), Offset: i, FieldType: *k.Field(), State: model.StatePublic, Version: 2})
	}
	t.Columns[0].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
	return t, kinds
}

// KindNamed returns the one of ColumnTypes with a name.
func KindNamed(name string) ColumnType {
	for _, k := range ColumnTypes {
		if k.Name == name {
			return k
		}
	}
	panic("no column type " + name)
}

// IndexOn returns an index of the columns at some offsets.
func IndexOn(id int64, unique bool, offsets ...int) *model.IndexInfo {
	idx := &model.IndexInfo{ID: id, Unique: unique, State: model.StateWriteReorganization}
	for _, o := range offsets {
		idx.Columns = append(idx.Columns, &model.IndexColumn{Offset: o, Length: types.UnspecifiedLength})
	}
	return idx
}

// DropIndex deletes all entries, as a rolled-back job would.
func (f *Fixture) DropIndex(idx *model.IndexInfo) {
	require.NoError(f.T, f.Store.DeleteRange(f.Ctx, entriesOf(f.Table.ID, idx.ID)))
}

// recordsOf is the range of a physical table's rows.
func recordsOf(physicalID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.GenTableRecordPrefix(physicalID))
}

// entriesOf is the range of the entries of an index of a physical table.
func entriesOf(physicalID, indexID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(physicalID, indexID))
}

// CloneRows returns a copy.
func CloneRows(rows map[string]Row) map[string]Row {
	out := make(map[string]Row, len(rows))
	for k, v := range rows {
		out[k] = Row{v.Handle, append([]types.Datum(nil), v.Values...)}
	}
	return out
}

func (f *Fixture) recordKey(row Row) string {
	return string(tablecodec.EncodeRowKeyWithHandle(f.Table.ID, row.Handle))
}

// RequireLoaded checks indexes of a table filled by load, whose rows are not
// kept, against the rows as a scan gives them.
func (f *Fixture) RequireLoaded(n int, ts uint64, indexes ...*model.IndexInfo) {
	if len(f.Rows) == 0 {
		f.ReadRows(ts)
	}
	require.Len(f.T, f.Rows, n)
	for _, idx := range indexes {
		f.RequireIndex(idx, ts, "loaded table")
	}
}

// ReadRows reads all rows through the library's decoder.
func (f *Fixture) ReadRows(ts uint64) {
	snap, err := f.Store.Snapshot(f.Ctx, ts)
	require.NoError(f.T, err)
	defer snap.Close()
	iter, err := snap.Iter(recordsOf(f.Table.ID))
	require.NoError(f.T, err)
	defer iter.Close()
	fields := make(map[int64]*types.FieldType)
	for _, col := range f.Table.Columns {
		fields[col.ID] = &col.FieldType
	}
	for iter.Valid() {
		h, err := tablecodec.DecodeRowKey(iter.Key())
		require.NoError(f.T, err)
		m, err := tablecodec.DecodeRowToDatumMap(bytes.Clone(iter.Value()), fields, time.UTC)
		require.NoError(f.T, err)
		values := make([]types.Datum, len(f.Table.Columns))
		for i, col := range f.Table.Columns {
			values[i] = m[col.ID]
		}
		values[0] = types.NewIntDatum(h.IntValue())
		f.Rows[string(iter.Key())] = Row{h, values}
		require.NoError(f.T, iter.Next())
	}
}
