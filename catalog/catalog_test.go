package catalog

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

func openStore(t *testing.T, fs vfs.FS) kv.Store {
	t.Helper()
	store, err := pebblekv.Open("db", pebblekv.Options{FS: fs})
	require.NoError(t, err)
	return store
}

func open(t *testing.T) *Catalog {
	t.Helper()
	store := openStore(t, vfs.NewMem())
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c, err := Open(t.Context(), store)
	require.NoError(t, err)
	return c
}

func createTable(t *testing.T, c *Catalog, db, name string) *Table {
	t.Helper()
	is, err := c.Update(t.Context(), func(_ context.Context, m *Mutation) error {
		dbInfo, ok := c.Current().Schema(db)
		require.True(t, ok)
		id, err := m.GenGlobalID()
		if err != nil {
			return err
		}
		m.SetDiff(&model.SchemaDiff{Type: model.ActionCreateTable, SchemaID: dbInfo.ID, TableID: id})
		return m.CreateTableOrView(dbInfo.ID, &model.TableInfo{ID: id, Name: pmodel.NewCIStr(name), State: model.StatePublic})
	})
	require.NoError(t, err)
	tbl, ok := is.Table(db, name)
	require.True(t, ok)
	return tbl
}

func TestBootstrapOnceAndReopen(t *testing.T) {
	fs := vfs.NewMem()
	store := openStore(t, fs)
	c, err := Open(t.Context(), store)
	require.NoError(t, err)
	for _, name := range []string{"mysql", "test", "TEST"} {
		_, ok := c.Current().Schema(name)
		require.True(t, ok, name)
	}
	createTable(t, c, "test", "a")
	require.NoError(t, c.SetGlobalVar(t.Context(), "x", "1"))
	require.NoError(t, c.SetBlob(t.Context(), "b", []byte("blob")))
	version := c.Current().Version()
	require.NoError(t, store.Close())

	store = openStore(t, fs)
	defer func() { require.NoError(t, store.Close()) }()
	c, err = Open(t.Context(), store)
	require.NoError(t, err)
	require.Equal(t, version, c.Current().Version())
	require.Len(t, c.Current().Schemas(), 2)
	_, ok := c.Current().Table("TEST", "A")
	require.True(t, ok)
	vars, err := c.GlobalVars(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x": "1"}, vars)
	blob, err := c.Blob(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, "blob", string(blob))
	blob, err = c.Blob(t.Context(), "none")
	require.NoError(t, err)
	require.Nil(t, blob)
}

func TestUpdateSharesUnchangedTables(t *testing.T) {
	c := open(t)
	a := createTable(t, c, "test", "a")
	b := createTable(t, c, "test", "b")
	before := c.Current()

	is, err := c.Update(t.Context(), func(_ context.Context, m *Mutation) error {
		info := b.Info.Clone()
		info.Comment = "changed"
		m.SetDiff(&model.SchemaDiff{Type: model.ActionModifyTableComment, SchemaID: b.DB.ID, TableID: info.ID})
		return m.UpdateTable(b.DB.ID, info)
	})
	require.NoError(t, err)
	require.Equal(t, before.Version()+1, is.Version())
	gotA, _ := is.Table("test", "a")
	gotB, _ := is.Table("test", "b")
	require.Same(t, a, gotA)
	require.Equal(t, "changed", gotB.Info.Comment)
	require.Equal(t, is.Version(), gotB.SchemaVersion)
	oldB, _ := before.Table("test", "b")
	require.Empty(t, oldB.Info.Comment, "a published schema does not change")
}

// Two tables swap their names, one moves to another database, one is dropped:
// the schema built from diffs equals the one loaded anew.
func TestDiffsEqualFullLoad(t *testing.T) {
	c := open(t)
	a, b := createTable(t, c, "test", "a"), createTable(t, c, "test", "b")
	d := createTable(t, c, "test", "d")
	mysql, _ := c.Current().Schema("mysql")
	rename := func(m *Mutation, tbl *Table, dbID int64, name string) error {
		info := tbl.Info.Clone()
		info.Name = pmodel.NewCIStr(name)
		if dbID == tbl.DB.ID {
			return m.UpdateTable(dbID, info)
		}
		if err := m.DropTableOrView(tbl.DB.ID, info.ID); err != nil {
			return err
		}
		return m.CreateTableOrView(dbID, info)
	}
	_, err := c.Update(t.Context(), func(_ context.Context, m *Mutation) error {
		m.SetDiff(&model.SchemaDiff{
			Type: model.ActionRenameTables, SchemaID: a.DB.ID, TableID: a.Info.ID, OldSchemaID: a.DB.ID,
			AffectedOpts: []*model.AffectedOption{
				{SchemaID: b.DB.ID, TableID: b.Info.ID, OldSchemaID: b.DB.ID},
				{SchemaID: mysql.ID, TableID: d.Info.ID, OldSchemaID: d.DB.ID},
			},
		})
		if err := rename(m, a, a.DB.ID, "b"); err != nil {
			return err
		}
		if err := rename(m, b, b.DB.ID, "a"); err != nil {
			return err
		}
		return rename(m, d, mysql.ID, "d2")
	})
	require.NoError(t, err)
	_, err = c.Update(t.Context(), func(_ context.Context, m *Mutation) error {
		m.SetDiff(&model.SchemaDiff{Type: model.ActionDropTable, SchemaID: b.DB.ID, TableID: b.Info.ID})
		return m.DropTableOrView(b.DB.ID, b.Info.ID)
	})
	require.NoError(t, err)

	require.Equal(t, []string{"mysql.d2", "test.b"}, tableNames(c.Current()))
	got, _ := c.Current().Table("test", "b")
	require.Equal(t, a.Info.ID, got.Info.ID)
	fresh, err := Open(t.Context(), c.Store())
	require.NoError(t, err)
	require.Equal(t, tableNames(fresh.Current()), tableNames(c.Current()))
	require.Equal(t, fresh.Current().Version(), c.Current().Version())
}

func tableNames(is *InfoSchema) (names []string) {
	for _, db := range is.Schemas() {
		for _, t := range is.Tables(db.Name.O) {
			names = append(names, db.Name.O+"."+t.Info.Name.O)
		}
	}
	return names
}

func TestDropDatabase(t *testing.T) {
	c := open(t)
	tbl := createTable(t, c, "test", "a")
	_, err := c.Update(t.Context(), func(_ context.Context, m *Mutation) error {
		m.SetDiff(&model.SchemaDiff{Type: model.ActionDropSchema, SchemaID: tbl.DB.ID})
		return m.DropDatabase(tbl.DB.ID)
	})
	require.NoError(t, err)
	_, ok := c.Current().Schema("test")
	require.False(t, ok)
	_, ok = c.Current().TableByID(tbl.Info.ID)
	require.False(t, ok)
	require.Nil(t, c.Current().Tables("test"))
}

func TestConcurrentUpdatesAllPublished(t *testing.T) {
	c := open(t)
	start := c.Current().Version()
	var g errgroup.Group
	for i := range 4 {
		g.Go(func() error {
			for j := range 5 {
				createTable(t, c, "test", fmt.Sprintf("t%d_%d", i, j))
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Equal(t, start+20, c.Current().Version())
	require.Len(t, c.Current().Tables("test"), 20)
}

func TestDerivedIsBuiltOncePerDefinition(t *testing.T) {
	c := open(t)
	tbl := createTable(t, c, "test", "a")
	type key struct{}
	var mu sync.Mutex
	seen := map[any]bool{}
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			v := tbl.Derived(key{}, func(*Table) any { return new(int) })
			mu.Lock()
			defer mu.Unlock()
			seen[v] = true
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, seen, 1)
}

func TestAutoIDsCountedApart(t *testing.T) {
	c := open(t)
	apart := &Table{DB: &model.DBInfo{ID: 1}, Info: &model.TableInfo{ID: 50, Version: model.CurrLatestTableInfoVersion, AutoIDCache: 1}}
	shared := &Table{DB: &model.DBInfo{ID: 1}, Info: &model.TableInfo{ID: 51, Version: model.CurrLatestTableInfoVersion}}
	alloc := func(a *AutoID) uint64 {
		id, err := a.Alloc(t.Context(), 1)
		require.NoError(t, err)
		return id
	}
	require.Equal(t, []uint64{1, 1, 2, 2}, []uint64{
		alloc(c.AutoID(apart)), alloc(c.RowID(apart)), alloc(c.AutoID(apart)), alloc(c.RowID(apart))})
	require.Equal(t, []uint64{1, 2, 3, 4}, []uint64{
		alloc(c.AutoID(shared)), alloc(c.RowID(shared)), alloc(c.AutoID(shared)), alloc(c.RowID(shared))})
}

func TestAutoID(t *testing.T) {
	fs := vfs.NewMem()
	store := openStore(t, fs)
	c, err := Open(t.Context(), store)
	require.NoError(t, err)
	tbl := createTable(t, c, "test", "a")
	ids := c.AutoID(tbl)
	alloc := func(n uint64) uint64 {
		first, err := ids.Alloc(t.Context(), n)
		require.NoError(t, err)
		return first
	}
	next, err := ids.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(1), next)
	require.Equal(t, uint64(1), alloc(1))
	require.Equal(t, uint64(2), alloc(3))
	require.Equal(t, uint64(5), alloc(autoIDStep), "a reservation is continued without a gap")
	require.NoError(t, ids.Rebase(t.Context(), 10), "below what is used: nothing")
	require.Equal(t, uint64(5+autoIDStep), alloc(1))
	require.NoError(t, ids.Rebase(t.Context(), 1_000_000))
	require.Equal(t, uint64(1_000_001), alloc(1))
	_, err = ids.Alloc(t.Context(), 0)
	require.Error(t, err)

	seen := sync.Map{}
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			for range 3000 {
				first, err := ids.Alloc(t.Context(), 2)
				if err != nil {
					return err
				}
				for id := first; id < first+2; id++ {
					if _, dup := seen.LoadOrStore(id, true); dup {
						return fmt.Errorf("id %d twice", id)
					}
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	last := alloc(1)
	require.NoError(t, store.Close())

	store = openStore(t, fs)
	defer func() { require.NoError(t, store.Close()) }()
	c, err = Open(t.Context(), store)
	require.NoError(t, err)
	tbl, _ = c.Current().Table("test", "a")
	first, err := c.AutoID(tbl).Alloc(t.Context(), 1)
	require.NoError(t, err)
	require.Greater(t, first, last)
}
