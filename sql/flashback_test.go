package sql_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/ddl"
)

// flashBack has jobs meet what FLASHBACK CLUSTER does, which waits behind a build and begins when a plain server has cancelled
// that, before its node knows: it takes the definition of table t back to what it is now, and with it the numbers of the last index
// and column. Then it calls fn.
func (e *env) flashBack(c *client, at ddl.HookPoint, fn func()) {
	e.t.Helper()
	before, err := e.Domain().InfoSchema().TableByName(context.Background(), pmodel.NewCIStr("test"), pmodel.NewCIStr("t"))
	require.NoError(e.t, err)
	var begun atomic.Bool
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if !matches(p, at) || begun.Swap(true) {
			return nil
		}
		c.run("DELETE FROM mysql.tidb_ddl_job")
		err := e.writeTable(model.ActionAddIndex, func(*model.TableInfo) *model.TableInfo { return before.Meta().Clone() })
		if err == nil {
			fn()
		}
		return err
	})
}

// writeTable replaces the definition of table t behind the back of all jobs, as a statement of a type would.
func (e *env) writeTable(statement model.ActionType, change func(now *model.TableInfo) *model.TableInfo) error {
	found, err := e.Domain().InfoSchema().TableByName(context.Background(), pmodel.NewCIStr("test"), pmodel.NewCIStr("t"))
	if err != nil {
		return err
	}
	err = tidbkv.RunInNewTxn(asServer(), e.store.Storage(), true, func(_ context.Context, txn tidbkv.Transaction) error {
		m := meta.NewMutator(txn)
		info, err := m.GetTable(found.Meta().DBID, found.Meta().ID)
		if err != nil {
			return err
		}
		info = change(info)
		version, err := m.GenSchemaVersion()
		if err != nil {
			return err
		}
		if err := m.UpdateTable(info.DBID, info); err != nil {
			return err
		}
		return m.SetSchemaDiff(&model.SchemaDiff{Version: version, Type: statement, SchemaID: info.DBID, TableID: info.ID})
	})
	if err != nil {
		return err
	}
	return e.Domain().Reload()
}

// What a build has imported is deleted under the number of its index, also if the table was flashed back, so that no other
// index may get that.
func TestIndexThatWasFlashedBackKeepsItsNumber(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	e.flashBack(c, hooks[afterImport], func() {})
	require.Equal(t, 8214, errorCode(wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)"))))
	e.setHook(nil)
	require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 0 }, hangTimeout, time.Millisecond)
	require.NotEmpty(t, c.run("SELECT * FROM mysql.gc_delete_range"))
	c.run("SET fastddl_ddl_engine = tidb")
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	e.collect(c)
	c.check("t")
	require.Equal(t, "10", c.one("SELECT COUNT(b) FROM t USE INDEX (u)"))
}

// Indexes and columns that are added before the build that was flashed back is undone stay, with any names.
func TestUndoneAfterAFlashbackBesideOthers(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, engine := range []string{config.EngineTiDB, config.EngineFastddl} {
		for _, name := range []string{"u", "v"} {
			t.Run(engine+" "+name, func(t *testing.T) {
				c := c.of(t)
				c.run("DROP TABLE IF EXISTS t; DELETE FROM mysql.gc_delete_range; SET fastddl_ddl_engine = " + engine)
				table(c, 10)
				e.flashBack(c, hooks[afterImport], func() {
					c.run("ALTER TABLE t ADD COLUMN %s INT DEFAULT 7", name)
					c.run("ALTER TABLE t ADD UNIQUE INDEX %s (b)", name)
				})
				require.Equal(t, 8214, errorCode(wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b), ADD COLUMN u INT DEFAULT 8"))))
				e.setHook(nil)
				require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 0 }, hangTimeout, time.Millisecond)
				e.collect(c)
				c.check("t")
				require.Equal(t, "10 70", c.one("SELECT COUNT(b), SUM(%[1]s) FROM t USE INDEX (%[1]s)", name))
				c.run("ALTER TABLE t ADD COLUMN w INT, ADD INDEX w (b)")
				c.check("t")
			})
		}
	}
}

// The same statement may be on its way again by then.
func TestUndoneAfterAFlashbackBesideTheSameStatement(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	const statement = "ALTER TABLE t ADD UNIQUE INDEX u (b)"
	var again <-chan error
	var leave chan struct{}
	e.flashBack(c, hooks[afterImport], func() {
		var arrived chan struct{}
		arrived, leave = e.blockAt(hooks[beforeImport])
		again = e.start(statement)
		reach(t, arrived)
	})
	require.Equal(t, 8214, errorCode(wait(t, e.start(statement))))
	close(leave)
	require.NoError(t, wait(t, again))
	e.setHook(nil)
	e.collect(c)
	c.check("t")
	require.Equal(t, "10", c.one("SELECT COUNT(b) FROM t USE INDEX (u)"))
}
