// Package equality compares indexes that package backfill builds with those that
// TiDB builds from the same rows, byte for byte.
package equality

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/domain"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/session" // with the planner, which compiles expressions
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/store/mockstore"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// newRand returns a generator whose seed is printed.
func newRand(t testing.TB) *rand.Rand {
	return randtest.Rand(t)
}

// tidb is a session of TiDB's SQL layer in this process, on its own embedded store.
type tidb struct {
	t       testing.TB
	store   tkv.Storage
	dom     *domain.Domain
	session sessiontypes.Session
}

func newTiDB(t testing.TB) *tidb {
	session.DisableStats4Test()
	config.UpdateGlobal(func(c *config.Config) { c.Experimental.AllowsExpressionIndex = true })
	store, err := mockstore.NewMockStore()
	require.NoError(t, err)
	dom, err := session.BootstrapSession(store)
	require.NoError(t, err)
	s, err := session.CreateSession(store)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Close()
		dom.Close()
		require.NoError(t, store.Close())
	})
	db := &tidb{t, store, dom, s}
	db.exec("use test")
	db.exec("set time_zone = 'Europe/Berlin'")
	db.exec("set global tidb_enable_dist_task = off")
	db.exec("set global tidb_ddl_enable_fast_reorg = off")
	return db
}

// exec runs a statement that returns no rows.
func (db *tidb) exec(sql string) {
	db.t.Helper()
	_, err := db.session.Execute(context.Background(), sql)
	if err != nil {
		require.Failf(db.t, "statement failed", "%s: %v", sql, err)
	}
}

func (db *tidb) table(name string) *model.TableInfo {
	tbl, err := db.dom.InfoSchema().TableByName(context.Background(), pmodel.NewCIStr("test"), pmodel.NewCIStr(name))
	require.NoError(db.t, err)
	return tbl.Meta()
}

// physicalIDs are the IDs that keys of the table begin with.
func physicalIDs(info *model.TableInfo) []int64 {
	ids := []int64{info.ID}
	if p := info.GetPartitionInfo(); p != nil {
		for _, def := range p.Definitions {
			ids = append(ids, def.ID)
		}
	}
	return ids
}

// pairs reads what the store has of a table now, records or entries of its
// indexes.
func (db *tidb) pairs(info *model.TableInfo, records bool) map[string]string {
	ver, err := db.store.CurrentVersion(tkv.GlobalTxnScope)
	require.NoError(db.t, err)
	snap := db.store.GetSnapshot(ver)
	all := make(map[string]string)
	for _, id := range physicalIDs(info) {
		prefix := tablecodec.GenTableIndexPrefix(id)
		if records {
			prefix = tablecodec.GenTableRecordPrefix(id)
		}
		it, err := snap.Iter(prefix, prefix.PrefixNext())
		require.NoError(db.t, err)
		for ; it.Valid(); require.NoError(db.t, it.Next()) {
			all[string(it.Key())] = string(it.Value())
		}
		it.Close()
	}
	return all
}

// copied is a store of ours with rows of TiDB's.
type copied struct {
	t     testing.TB
	store *pebblekv.Store
	temp  string
}

func newCopied(t testing.TB) *copied {
	store, err := pebblekv.Open(filepath.Join(t.TempDir(), "db"), pebblekv.Options{DisableSync: true, CacheBytes: 16 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &copied{t, store, t.TempDir()}
}

// put writes pairs.
func (c *copied) put(pairs map[string]string) {
	applied, err := c.store.Apply(c.t.Context(), func(yield func(key, value []byte) bool) {
		for k, v := range pairs {
			if !yield([]byte(k), []byte(v)) {
				return
			}
		}
	}, pebblekv.ApplyOptions{})
	require.NoError(c.t, err)
	require.NoError(c.t, applied.Wait())
}

// entries reads the indexes of a table.
func (c *copied) entries(info *model.TableInfo, ts uint64) map[string]string {
	snap, err := c.store.Snapshot(c.t.Context(), ts)
	require.NoError(c.t, err)
	defer snap.Close()
	all := make(map[string]string)
	for _, id := range physicalIDs(info) {
		it, err := snap.Iter(kv.PrefixRange(tablecodec.GenTableIndexPrefix(id)))
		require.NoError(c.t, err)
		for ; it.Valid(); require.NoError(c.t, it.Next()) {
			all[string(it.Key())] = string(it.Value())
		}
		require.NoError(c.t, it.Close())
	}
	return all
}

func (c *copied) task(info *model.TableInfo) encode.Task {
	ts, err := c.store.CurrentTS(c.t.Context())
	require.NoError(c.t, err)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(c.t, err)
	mode, err := mysql.GetSQLMode(mysql.DefaultSQLMode)
	require.NoError(c.t, err)
	var indexes []*model.IndexInfo
	for _, idx := range info.Indices {
		if !(idx.Primary && info.IsCommonHandle) {
			indexes = append(indexes, idx)
		}
	}
	return encode.Task{JobID: 1, Table: info, Indexes: indexes, TS: ts, SQLMode: mode, Location: berlin}
}

// requireSame compares what was built with what is wanted and names a few
// differences.
func requireSame(t testing.TB, want, got map[string]string, what string) {
	t.Helper()
	var diffs []string
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			diffs = append(diffs, fmt.Sprintf("key %x: TiDB %x, ours %x", k, v, g))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			diffs = append(diffs, fmt.Sprintf("key %x: only ours, %x", k, v))
		}
	}
	if len(diffs) > 0 {
		require.Failf(t, "index differs", "%s: %d of %d entries differ, %s", what, len(diffs), len(want), strings.Join(diffs[:min(4, len(diffs))], "\n"))
	}
}

// values makes random literals of a kind.
type values func(r *rand.Rand) string

func oneOf(literals ...string) values {
	return func(r *rand.Rand) string { return literals[r.IntN(len(literals))] }
}

func orNull(v values) values {
	return func(r *rand.Rand) string {
		if r.IntN(6) == 0 {
			return "NULL"
		}
		return v(r)
	}
}

func number(lo, hi int) values {
	return func(r *rand.Rand) string { return fmt.Sprint(lo + r.IntN(hi-lo+1)) }
}

// distinct returns no literal twice. Indexes that must be unique end in a column
// of such values: a key column alone may repeat where the key has more columns.
func distinct(v values) values {
	seen := make(map[string]bool)
	return func(r *rand.Rand) string {
		for {
			if literal := v(r); !seen[literal] {
				seen[literal] = true
				return literal
			}
		}
	}
}

func word(letters string, limit int) values {
	runes := []rune(letters)
	return func(r *rand.Rand) string {
		var b bytes.Buffer
		for range r.IntN(limit + 1) {
			b.WriteRune(runes[r.IntN(len(runes))])
		}
		return "'" + b.String() + "'"
	}
}

var text = word("aAbBßéÉzZ日本😀 0", 9)

func jsonArray(element values) values {
	return func(r *rand.Rand) string {
		if r.IntN(12) == 0 {
			return "'[]'"
		}
		elements := make([]string, 1+r.IntN(6))
		for i := range elements {
			elements[i] = element(r)
		}
		return "'[" + strings.Join(elements, ",") + "]'"
	}
}

func decimals(r *rand.Rand) string { return fmt.Sprintf("%d.%04d", r.IntN(20000)-10000, r.IntN(10000)) }

func datetimes(r *rand.Rand) string {
	return fmt.Sprintf("'%04d-%02d-%02d %02d:%02d:%02d.%06d'", 1990+r.IntN(40), 1+r.IntN(12), 1+r.IntN(28), 3+r.IntN(20), r.IntN(60), r.IntN(60), r.IntN(1e6))
}

// table is a table of the tests: columns with their values, what comes behind
// them, and indexes.
type table struct {
	columns []string // definitions
	values  []values // nil for generated columns
	options string   // keys and what follows the definitions
	suffix  string   // behind the parenthesis
	added   []string // columns that are added when there are rows
	indexes []string
}

func (tbl *table) create(db *tidb) {
	parts := append([]string{}, tbl.columns...)
	if tbl.options != "" {
		parts = append(parts, tbl.options)
	}
	db.exec("drop table if exists t")
	db.exec("create table t (" + strings.Join(parts, ", ") + ") " + tbl.suffix)
}

// fill inserts about n rows; those that violate a key are left out.
func (tbl *table) fill(db *tidb, r *rand.Rand, n int) {
	var names []string
	for i, def := range tbl.columns {
		if tbl.values[i] != nil {
			names = append(names, strings.Fields(def)[0])
		}
	}
	for n > 0 {
		var rows []string
		for range min(n, 50) {
			var row []string
			for _, v := range tbl.values {
				if v != nil {
					row = append(row, v(r))
				}
			}
			rows = append(rows, "("+strings.Join(row, ",")+")")
		}
		n -= len(rows)
		db.exec("insert ignore into t (" + strings.Join(names, ",") + ") values " + strings.Join(rows, ","))
	}
}

// requireEqual lets both build the indexes of the table, and compares.
func (tbl *table) requireEqual(db *tidb, r *rand.Rand, n int) {
	db.t.Helper()
	tbl.create(db)
	tbl.fill(db, r, n)
	for _, def := range tbl.added {
		db.exec("alter table t add column " + def)
	}
	for i, def := range tbl.indexes {
		db.exec("alter table t add " + strings.ReplaceAll(def, "@", fmt.Sprint("i", i)))
	}
	requireBuiltEqual(db, strings.Join(tbl.columns, ", ")+"; "+strings.Join(tbl.indexes, ", "))
}

// requireBuiltEqual builds the indexes that table t has in TiDB from its rows, and compares.
func requireBuiltEqual(db *tidb, what string) {
	db.t.Helper()
	info := db.table("t")
	c := newCopied(db.t)
	c.put(db.pairs(info, true))
	task := c.task(info)
	res, err := backfill.Run(db.t.Context(), backfill.Options{Store: c.store, TempDir: c.temp}, backfill.Spec{Task: task})
	require.NoError(db.t, err)
	require.EqualValues(db.t, len(db.pairs(info, true)), res.Rows)
	want := db.pairs(info, false)
	require.NotEmpty(db.t, want)
	requireSame(db.t, want, c.entries(info, task.TS), what)
	require.EqualValues(db.t, len(want), res.Entries, what)

	compared, err := compare.Run(db.t.Context(), execution.Options{Store: c.store}, c.task(info))
	require.NoError(db.t, err)
	require.True(db.t, compared.Clean(), "%s: %+v", what, compared)
	require.Equal(db.t, res.Rows, compared.Rows)

	enc, err := encode.NewRowEncoder(task)
	require.NoError(db.t, err)
	byRow := make(map[string]string)
	for k, v := range db.pairs(info, true) {
		entries, err := enc.Encode([]byte(k), []byte(v))
		require.NoError(db.t, err)
		for _, e := range entries {
			byRow[string(e.Key)] = string(e.Value)
		}
	}
	requireSame(db.t, want, byRow, "row by row: "+what)
}
