package backfill

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

// fixture is a table in a store of its own.
type fixture struct {
	t     testing.TB
	ctx   context.Context
	store *pebblekv.Store
	temp  string

	table *model.TableInfo
	kinds []columnType
	rows  map[string]fixtureRow // by record key
	next  int64
}

type fixtureRow struct {
	handle tkv.Handle
	values []types.Datum
}

func newFixture(t testing.TB, table *model.TableInfo, kinds []columnType) *fixture {
	return newFixtureOn(t, nil, table, kinds)
}

// newFixtureOn is newFixture with a store on a file system; nil is the operating system's.
func newFixtureOn(t testing.TB, fs vfs.FS, table *model.TableInfo, kinds []columnType) *fixture {
	store, err := pebblekv.Open(filepath.Join(t.TempDir(), "db"), pebblekv.Options{DisableSync: true, CacheBytes: 64 << 20, FS: fs})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &fixture{
		t: t, ctx: context.Background(), store: store, temp: filepath.Join(t.TempDir(), "tmp"),
		table: table, kinds: kinds, rows: make(map[string]fixtureRow),
	}
}

// insert adds n random rows in one transaction. Rows whose key is taken are
// left out.
func (f *fixture) insert(r *rand.Rand, n int) {
	var c changes
	for range n {
		f.next++
		values := randomRow(r, f.table, f.kinds)
		h := rowHandle(f.t, f.table, values, f.next)
		key := string(tablecodec.EncodeRowKeyWithHandle(f.table.ID, h))
		if _, ok := f.rows[key]; ok {
			continue
		}
		c.put([]byte(key), f.encodeRow(values))
		f.rows[key] = fixtureRow{h, values}
	}
	f.commit(c)
}

// changes are keys with their new values, in order; nil is a tombstone.
type changes []struct{ key, value []byte }

func (c *changes) put(key, value []byte) {
	*c = append(*c, struct{ key, value []byte }{key, value})
}

func (c *changes) delete(key []byte) { c.put(key, nil) }

// commit writes changes at one timestamp, whatever was written meanwhile.
func (f *fixture) commit(c changes) {
	f.t.Helper()
	last := make(map[string][]byte, len(c))
	for _, change := range c {
		last[string(change.key)] = change.value
	}
	applied, err := f.store.Apply(f.ctx, func(yield func(key, value []byte) bool) {
		for key, value := range last {
			if !yield([]byte(key), value) {
				return
			}
		}
	}, pebblekv.ApplyOptions{})
	require.NoError(f.t, err)
	require.NoError(f.t, applied.Wait())
}

// encodeRow encodes a row as TiDB stores it: without the columns that the
// handle holds.
func (f *fixture) encodeRow(values []types.Datum) []byte {
	var ids []int64
	var stored []types.Datum
	for i, col := range f.table.Columns {
		if !mysql.HasPriKeyFlag(col.GetFlag()) || f.table.IsCommonHandle && types.NeedRestoredData(&col.FieldType) || f.prefixedHandle(i) {
			ids = append(ids, col.ID)
			stored = append(stored, values[i])
		}
	}
	enc := rowcodec.Encoder{Enable: true}
	b, err := tablecodec.EncodeRow(time.UTC, stored, ids, nil, nil, rowcodec.NoChecksum{}, &enc)
	require.NoError(f.t, err)
	return b
}

func (f *fixture) prefixedHandle(offset int) bool {
	if !f.table.IsCommonHandle {
		return false
	}
	for _, ic := range tables.FindPrimaryIndex(f.table).Columns {
		if ic.Offset == offset && ic.Length != types.UnspecifiedLength {
			return true
		}
	}
	return false
}

func (f *fixture) ts() uint64 {
	ts, err := f.store.CurrentTS(f.ctx)
	require.NoError(f.t, err)
	return ts
}

func (f *fixture) options() Options {
	return Options{Store: f.store, TempDir: f.temp}
}

func (f *fixture) spec(indexes ...*model.IndexInfo) Spec {
	return Spec{Task: f.task(indexes...)}
}

func (f *fixture) task(indexes ...*model.IndexInfo) Task {
	return Task{JobID: 77, Table: f.table, Indexes: indexes, TS: f.ts()}
}

// wantEntries is the naive index: every row through the library.
func (f *fixture) wantEntries(idx *model.IndexInfo) map[string]string {
	want := make(map[string]string)
	for _, row := range f.rows {
		key, value, _ := libraryEntry(f.t, f.table, idx, row.values, row.handle)
		want[string(key)] = string(value)
	}
	return want
}

// entriesAt reads an index at a timestamp.
func (f *fixture) entriesAt(idx *model.IndexInfo, ts uint64) map[string]string {
	snap, err := f.store.Snapshot(f.ctx, ts)
	require.NoError(f.t, err)
	defer snap.Close()
	iter, err := snap.Iter(entriesOf(f.table.ID, idx.ID))
	require.NoError(f.t, err)
	defer iter.Close()
	got := make(map[string]string)
	for iter.Valid() {
		got[string(iter.Key())] = string(iter.Value())
		require.NoError(f.t, iter.Next())
	}
	return got
}

func (f *fixture) requireIndex(idx *model.IndexInfo, ts uint64, msg string) {
	requireEntries(f.t, f.wantEntries(idx), f.entriesAt(idx, ts), msg)
}

// requireEntries compares two indexes and names the first few differences.
func requireEntries(t testing.TB, want, got map[string]string, msg string) {
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

// requireNoTempFiles: whatever happened, nothing is left behind.
func (f *fixture) requireNoTempFiles() {
	var left []string
	err := filepath.WalkDir(f.temp, func(path string, _ os.DirEntry, err error) error {
		if path != f.temp {
			left = append(left, path)
		}
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(f.t, err)
	}
	require.Empty(f.t, left, "files are left in the temp folder")
}

// plainTable is a table like sysbench's: id INT PRIMARY KEY, k INT, c CHAR(120),
// pad CHAR(60).
func plainTable() (*model.TableInfo, []columnType) {
	kinds := []columnType{kindNamed("bigint"), kindNamed("int"), kindNamed("char utf8mb4_bin"), kindNamed("char utf8mb4_bin")}
	t := &model.TableInfo{ID: 100, PKIsHandle: true, State: model.StatePublic}
	for i, k := range kinds {
		t.Columns = append(t.Columns, &model.ColumnInfo{ID: int64(i + 1), Offset: i, FieldType: *k.field(), State: model.StatePublic, Version: 2})
	}
	t.Columns[0].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
	return t, kinds
}

func kindNamed(name string) columnType {
	for _, k := range columnTypes {
		if k.name == name {
			return k
		}
	}
	panic("no column type " + name)
}

func indexOn(id int64, unique bool, offsets ...int) *model.IndexInfo {
	idx := &model.IndexInfo{ID: id, Unique: unique, State: model.StateWriteReorganization}
	for _, o := range offsets {
		idx.Columns = append(idx.Columns, &model.IndexColumn{Offset: o, Length: types.UnspecifiedLength})
	}
	return idx
}

// dropIndex deletes all entries, as a rolled-back job would.
func (f *fixture) dropIndex(idx *model.IndexInfo) {
	require.NoError(f.t, f.store.DeleteRange(f.ctx, entriesOf(f.table.ID, idx.ID)))
}

// recordsOf is the range of a physical table's rows.
func recordsOf(physicalID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.GenTableRecordPrefix(physicalID))
}

// entriesOf is the range of the entries of an index of a physical table.
func entriesOf(physicalID, indexID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(physicalID, indexID))
}

func cloneRows(rows map[string]fixtureRow) map[string]fixtureRow {
	out := make(map[string]fixtureRow, len(rows))
	for k, v := range rows {
		out[k] = fixtureRow{v.handle, append([]types.Datum(nil), v.values...)}
	}
	return out
}

func (f *fixture) recordKey(row fixtureRow) string {
	return string(tablecodec.EncodeRowKeyWithHandle(f.table.ID, row.handle))
}

// requireLoaded checks indexes of a table filled by load, whose rows are not
// kept, against the rows as a scan gives them.
func (f *fixture) requireLoaded(n int, ts uint64, indexes ...*model.IndexInfo) {
	if len(f.rows) == 0 {
		f.readRows(ts)
	}
	require.Len(f.t, f.rows, n)
	for _, idx := range indexes {
		f.requireIndex(idx, ts, "loaded table")
	}
}

// readRows reads all rows through the library's decoder.
func (f *fixture) readRows(ts uint64) {
	snap, err := f.store.Snapshot(f.ctx, ts)
	require.NoError(f.t, err)
	defer snap.Close()
	iter, err := snap.Iter(recordsOf(f.table.ID))
	require.NoError(f.t, err)
	defer iter.Close()
	fields := make(map[int64]*types.FieldType)
	for _, col := range f.table.Columns {
		fields[col.ID] = &col.FieldType
	}
	for iter.Valid() {
		h, err := tablecodec.DecodeRowKey(iter.Key())
		require.NoError(f.t, err)
		m, err := tablecodec.DecodeRowToDatumMap(bytes.Clone(iter.Value()), fields, time.UTC)
		require.NoError(f.t, err)
		values := make([]types.Datum, len(f.table.Columns))
		for i, col := range f.table.Columns {
			values[i] = m[col.ID]
		}
		values[0] = types.NewIntDatum(h.IntValue())
		f.rows[string(iter.Key())] = fixtureRow{h, values}
		require.NoError(f.t, iter.Next())
	}
}
