package sql_test

import (
	"context"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
)

// FLASHBACK CLUSTER, which waits behind a build, begins when a plain server has cancelled that, before its node knows. It takes
// the definition of the table back, and with it the number of the last index. What the build has imported is deleted under its
// number all the same, so that no other index may get that.
func TestIndexThatWasFlashedBackKeepsItsNumber(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	before, err := e.Domain().InfoSchema().TableByName(context.Background(), pmodel.NewCIStr("test"), pmodel.NewCIStr("t"))
	require.NoError(t, err)
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if !matches(p, hooks[afterImport]) {
			return nil
		}
		c.run("DELETE FROM mysql.tidb_ddl_job")
		return tidbkv.RunInNewTxn(asServer(), e.store.Storage(), true, func(_ context.Context, txn tidbkv.Transaction) error {
			m := meta.NewMutator(txn)
			info := before.Meta().Clone()
			version, err := m.GenSchemaVersion()
			if err != nil {
				return err
			}
			if err := m.UpdateTable(info.DBID, info); err != nil {
				return err
			}
			return m.SetSchemaDiff(&model.SchemaDiff{Version: version, Type: model.ActionAddIndex, SchemaID: info.DBID, TableID: info.ID})
		})
	})
	require.Equal(t, 8214, errorCode(wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)"))))
	e.setHook(nil)
	require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 0 }, time.Minute, time.Millisecond)
	require.NotEmpty(t, c.run("SELECT * FROM mysql.gc_delete_range"))
	c.run("SET fastddl_ddl_engine = tidb")
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	e.collect(c)
	c.check("t")
	require.Equal(t, "10", c.one("SELECT COUNT(b) FROM t USE INDEX (u)"))
}
