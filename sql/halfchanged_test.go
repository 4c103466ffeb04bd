package sql_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
)

// A change of partitions that TiDB has given up in the middle, such as TRUNCATE PARTITION behind a REORGANIZE PARTITION of the
// same one (its workers panic), leaves the table as if it were going on. A build that was behind it begins nothing, and the
// client learns that the table has changed; executed again, the statement is TiDB's.
func TestPartitionsThatAreLeftHalfChanged(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT) PARTITION BY HASH (a) PARTITIONS 2; INSERT INTO t VALUES (1, 10), (2, 20)")
	leave := func(state model.SchemaState) {
		require.NoError(t, e.writeTable(model.ActionTruncateTablePartition, func(now *model.TableInfo) *model.TableInfo {
			now.Partition.DDLState = state
			return now
		}))
	}
	var left, begun atomic.Bool
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		switch {
		case matches(p, ddl.HookPoint{When: "before", Action: "change-schema", Step: "delete-only"}) && !left.Swap(true):
			leave(model.StateWriteOnly)
		case matches(p, ddl.HookPoint{When: "after", Action: "change-schema", Step: "delete-only"}):
			begun.Store(true)
		}
		return nil
	})
	c.fails(8028, "ALTER TABLE t ADD INDEX i (b)")
	require.False(t, begun.Load(), "the build had begun")
	require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`i`")
	require.Empty(t, c.run("SELECT * FROM mysql.tidb_ddl_job"))

	c.run("ALTER TABLE t ADD INDEX i (b)")
	require.Contains(t, c.one("SHOW WARNINGS"), "built by TiDB's own way")
	leave(model.StateNone)
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (a, b)")
	require.Empty(t, c.run("SHOW WARNINGS"))
	c.check("t")
}
