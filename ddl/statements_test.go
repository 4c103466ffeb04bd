package ddl

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/table"
)

func (e *env) tables(db string) string {
	var names []string
	for _, t := range e.cat.Current().Tables(db) {
		names = append(names, t.Info.Name.O)
	}
	return strings.Join(names, " ")
}

func (e *env) deleteRanges() []deleteRange {
	e.t.Helper()
	ranges, err := loadDeleteRanges(context.Background(), e.cat)
	require.NoError(e.t, err)
	return ranges
}

func TestDatabases(t *testing.T) {
	e := newEnv(t)
	e.must("create database Shop charset utf8mb4 collate utf8mb4_general_ci", "create database if not exists shop")
	db, ok := e.cat.Current().Schema("SHOP")
	require.True(t, ok)
	require.Equal(t, "Shop", db.Name.O)
	require.Equal(t, "utf8mb4_general_ci", db.Collate)
	require.NotZero(t, db.ID)
	e.must("create table shop.t (a varchar(5), primary key (a))", "alter database shop charset latin1")
	db, _ = e.cat.Current().Schema("shop")
	require.Equal(t, "latin1_bin", db.Collate)
	tbl, _ := e.cat.Current().Table("shop", "t")
	require.Equal(t, "utf8mb4_general_ci", tbl.Info.Collate)

	e.must("drop database shop", "drop database if exists shop")
	_, ok = e.cat.Current().Schema("shop")
	require.False(t, ok)
	_, ok = e.cat.Current().TableByID(tbl.Info.ID)
	require.False(t, ok)
	require.Len(t, e.deleteRanges(), 1)

	for _, tc := range []struct {
		sql  string
		code int
		text string
	}{
		{"create database test", 1007, "Can't create database 'test'; database exists"},
		{"drop database nope", 1008, "Can't drop database 'nope'; database doesn't exist"},
		{"alter database nope charset latin1", 1049, "Unknown database 'nope'"},
		{"create database " + strings.Repeat("x", 65), 1059, ""},
		{"drop database mysql", 8200, ""},
		{"create table nope.t (a int)", 1049, "Unknown database 'nope'"},
	} {
		e.requireCode(e.exec(tc.sql), tc.code, tc.text)
	}
}

func TestTables(t *testing.T) {
	e := newEnv(t)
	e.must("create table T (a int primary key, b int) auto_increment = 5", "create table u like t", "create table if not exists t (x int)")
	require.Equal(t, "T u", e.tables("test"))
	require.NotEqual(t, e.table("t").Info.ID, e.table("u").Info.ID)
	require.Len(t, e.table("t").Info.Columns, 2)

	warnings, err := e.ddl.Execute(context.Background(), request(t, "drop table if exists u, nope"))
	require.NoError(t, err)
	require.Equal(t, []Warning{{Level: "Note", Code: 1051, Message: "Unknown table 'test.nope'"}}, warnings)
	require.Equal(t, "T", e.tables("test"))

	for _, tc := range []struct {
		sql  string
		code int
		text string
	}{
		{"create table t (a int)", 1050, "Table 'test.t' already exists"},
		{"create table v like nope", 1146, "Table 'test.nope' doesn't exist"},
		{"drop table t, nope, nope2", 1051, "Unknown table 'test.nope,test.nope2'"},
		{"drop table t, t", 1066, ""},
		{"truncate table nope", 1146, ""},
		{"rename table nope to x", 1146, ""},
		{"rename table t to nope.t", 1025, ""},
		{"alter table t rename to t2, add column c int", 8200, "Unsupported multi schema change for rename table"},
		{"alter table nope add column c int", 1146, "Table 'test.nope' doesn't exist"},
		{"create index i on nope (a)", 1146, ""},
		{"alter table t add primary key (b)", 1068, "Multiple primary key defined"},
		{"alter table t modify a bigint", 8200, ""},
		{"alter table t charset latin1", 8200, ""},
		{"alter table t add foreign key (b) references u (a)", 8200, ""},
		{"create fulltext index i on t (b)", 8200, ""},
	} {
		e.requireCode(e.exec(tc.sql), tc.code, tc.text)
	}
	require.Equal(t, "T", e.tables("test"), "a refused statement changes nothing")

	req := request(t, "create table x (a int)")
	req.CurrentDB = ""
	_, err = e.ddl.Execute(context.Background(), req)
	e.requireCode(err, 1046, "No database selected")
}

func TestRename(t *testing.T) {
	e := newEnv(t)
	e.must("create table a (x int primary key)", "create table b (y int primary key)", "create database other")
	a, b := e.table("a").Info.ID, e.table("b").Info.ID
	e.must("rename table a to tmp, b to a, tmp to b")
	require.Equal(t, b, e.table("a").Info.ID)
	require.Equal(t, a, e.table("b").Info.ID)
	e.must("alter table a rename to A", "alter table b rename as c", "alter table c rename to b")
	require.Equal(t, "a b", e.tables("test"), "only another case is no other name")
	e.requireCode(e.exec("rename table a to b"), 1050, "")
	e.requireCode(e.exec("rename table a to c, a to d"), 1146, "")

	e.must("rename table a to other.moved")
	require.Equal(t, "moved", e.tables("other"))
	moved, ok := e.cat.Current().TableByID(b)
	require.True(t, ok)
	require.Equal(t, "other", moved.DB.Name.O)
}

// A table that has moved to another database keeps its AUTO_INCREMENT counter,
// also when the database it came from is dropped.
func TestAutoIncrementSurvivesMoves(t *testing.T) {
	e := newEnv(t)
	ctx := context.Background()
	e.must("create database d1", "create database d2", "create table d1.t (a int auto_increment primary key) auto_increment = 100")
	next := func(db string) uint64 {
		tbl, ok := e.cat.Current().Table(db, "t")
		require.True(t, ok)
		id, err := e.cat.AutoID(tbl).Alloc(ctx, 1)
		require.NoError(t, err)
		return id
	}
	require.EqualValues(t, 100, next("d1"))
	e.must("rename table d1.t to d2.t", "drop database d1")
	e.restart(nil)
	require.Greater(t, next("d2"), uint64(100))

	e.must("alter table d2.t auto_increment = 100000")
	require.EqualValues(t, 100000, next("d2"))
	e.must("alter table d2.t auto_increment = 5")
	require.EqualValues(t, 100001, next("d2"), "it never goes back")
	e.must("truncate table d2.t")
	require.EqualValues(t, 1, next("d2"))
}

func TestTruncate(t *testing.T) {
	e := newEnv(t)
	e.fill(10)
	old := e.table("t").Info.ID
	commit, _ := e.write("t", func(txn kv.Txn, tbl *table.Table) {
		_, err := tbl.AddRecord(context.Background(), txn, datums(int64(99), int64(1), "x"), table.AddOptions{})
		require.NoError(t, err)
	})
	done := e.async(context.Background(), "truncate table t")
	waitFor(t, "truncate waits for the writer", func() bool { return len(e.locks.Blockers()) == 1 })
	require.NoError(t, commit())
	require.NoError(t, <-done)
	require.NotEqual(t, old, e.table("t").Info.ID)
	require.Zero(t, e.entries(table.RecordRange(e.table("t").Info.ID)))
	ranges := e.deleteRanges()
	require.Len(t, ranges, 1)
	require.Equal(t, table.Range(old), kv.KeyRange{Start: ranges[0].Range.Start, End: ranges[0].Range.End})
}

// Columns are added and dropped without touching rows.
func TestColumns(t *testing.T) {
	e := newEnv(t)
	ctx := context.Background()
	e.fill(3)
	e.must("create index c on t (c)", "alter table t add column d int not null default 7 first, add column e varchar(5) after id, drop column c")
	info := e.table("t").Info
	var names []string
	for _, col := range info.Columns {
		names = append(names, col.Name.O)
	}
	require.Equal(t, []string{"d", "id", "e", "k"}, names)
	require.Empty(t, info.Indices)

	ts, err := e.store.CurrentTS(ctx)
	require.NoError(t, err)
	snap, err := e.store.Snapshot(ctx, ts)
	require.NoError(t, err)
	defer snap.Close()
	tbl := table.Of(e.table("t"))
	it, err := tbl.Reader(snap, []int{0, 1, 2, 3}, time.UTC).Scan([]kv.KeyRange{tbl.RecordRange()}, false)
	require.NoError(t, err)
	defer it.Close()
	_, row, err := it.Next(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 7, row[0].GetInt64())
	require.True(t, row[2].IsNull())

	e.must("alter table t add column if not exists d int, drop column if exists nope")
	e.requireCode(e.exec("alter table t add column d int"), 1060, "Duplicate column name 'd'")
	e.requireCode(e.exec("alter table t drop column nope"), 1091, "Can't DROP 'nope'; check that column/key exists")
}

func TestIndexOptions(t *testing.T) {
	e := newEnv(t)
	e.fill(3)
	e.must("create index k on t (k) invisible comment 'x' algorithm = inplace lock = none")
	require.True(t, e.index("t", "k").Invisible)
	e.must("alter table t alter index k visible, comment 'hello', algorithm = instant", "alter table t rename index k to K2")
	require.False(t, e.index("t", "k2").Invisible)
	require.Equal(t, "K2", e.index("t", "k2").Name.O)
	require.Equal(t, "hello", e.table("t").Info.Comment)
	require.Equal(t, "alter table multi-schema change", e.jobs()[1].Type)
	require.Equal(t, "rename index", e.jobs()[0].Type)
	e.must("alter table t engine = innodb, row_format = dynamic", "alter table t alter index k2 visible")
	e.requireCode(e.exec("alter table t add index k2 (id)"), 1061, "Duplicate key name 'k2'")
	e.requireCode(e.exec("drop index k on t"), 1091, "Can't DROP 'k'; check that column/key exists")
	e.must("drop index if exists k on t", "create index if not exists k2 on t (id)")
}

// Many tables at once: jobs on different tables run side by side, those on one
// table in order.
func TestManyJobsAtOnce(t *testing.T) {
	e := newEnv(t)
	const tables = 20
	var together sync.WaitGroup
	together.Add(tables)
	e.fake.set(func(ctx context.Context, task BackfillTask) error {
		if strings.HasPrefix(task.Indexes[0].Name.L, "first") {
			// No build goes on before all have begun.
			together.Done()
			together.Wait()
		}
		return nil
	})
	for i := range tables {
		e.must(fmt.Sprintf("create table t%d (a int primary key, b int)", i))
	}
	var results []<-chan error
	for i := range tables {
		results = append(results,
			e.async(context.Background(), fmt.Sprintf("create index first on t%d (b)", i)),
			e.async(context.Background(), fmt.Sprintf("alter table t%d add index second (b)", i)))
	}
	for _, r := range results {
		require.NoError(t, <-r)
	}
	for i := range tables {
		info := e.table(fmt.Sprintf("t%d", i)).Info
		require.Len(t, info.Indices, 2)
	}
	e.requireNoTrace()
}

// With the metadata lock off the owner does not wait: the transaction fails.
func TestMetadataLockOff(t *testing.T) {
	e := newEnv(t)
	e.fill(3)
	_, _, err := e.globals.Set("tidb_enable_metadata_lock", "OFF")
	require.NoError(t, err)
	commit, _ := e.write("t", func(txn kv.Txn, tbl *table.Table) {
		_, err := tbl.AddRecord(context.Background(), txn, datums(int64(99), int64(1), "x"), table.AddOptions{})
		require.NoError(t, err)
	})
	e.must("create index k on t (k)")
	e.requireCode(commit(), 8028, "")
	require.Equal(t, 3, e.entries(table.IndexRange(e.table("t").Info.ID, e.index("t", "k").ID)))
}

func TestOwnerAndValidation(t *testing.T) {
	_, err := New(Options{HoldTTL: -1})
	require.ErrorContains(t, err, "Catalog is missing")
	require.ErrorContains(t, err, "Backfiller is missing")
	require.ErrorContains(t, err, "HoldTTL")
	e := newEnv(t)
	require.Equal(t, e.cat.Current().Version(), e.ddl.Owner().SchemaVersion)
	require.NoError(t, e.ddl.Close())
	require.ErrorIs(t, e.exec("create table t (a int)"), ErrClosed)
}

// What is stored is what was published: a node that starts afterwards sees the
// same.
func TestSchemaIsDurable(t *testing.T) {
	e := newEnv(t)
	e.fill(3)
	e.must("alter table t add index k (k), add column x int default 5")
	before := e.table("t").Info
	e.restart(nil)
	after := e.table("t").Info
	require.Equal(t, before.Columns, after.Columns)
	require.Equal(t, before.Indices, after.Indices)
	require.Equal(t, model.StatePublic, after.State)
}
