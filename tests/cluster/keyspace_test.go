package cluster

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/stretchr/testify/require"

	"fastddl/tests/cluster/standin"
)

// startKeyspace starts a cluster whose SQL servers work in a keyspace.
func startKeyspace(t testing.TB) *standin.Cluster {
	t.Helper()
	return startStandIn(t, standin.Options{Keyspaces: []*keyspacepb.KeyspaceMeta{orders}, Keyspace: true})
}

// TestKeyspace: builds of all kinds in a keyspace, by nodes that share one, and by one that takes another's over; what a
// keyspace has in etcd beside others; and no build of ours while there is a changefeed, which is none of the keyspace's.
func TestKeyspace(t *testing.T) {
	t.Parallel()
	c := startKeyspace(t)
	first, second := startNode(t, c), startNode(t, c)
	a, b := first.open(), second.open()
	fill(a, "t", 4000)
	fill(a, "k", 1000)
	a.exec("ALTER TABLE k ADD COLUMN j JSON", "UPDATE k SET j = JSON_OBJECT('m', JSON_ARRAY(v, id, 5))",
		"ALTER TABLE k ADD INDEX s (s), ADD UNIQUE INDEX v (v), ADD INDEX e ((v + 1)), ADD INDEX m ((CAST(j->'$.m' AS UNSIGNED ARRAY)))",
		"ADMIN CHECK TABLE k")
	require.Equal(t, "2", b.value("SELECT COUNT(*) FROM k USE INDEX (m) WHERE 14 MEMBER OF (j->'$.m')"))
	a.exec("UPDATE t SET v = 7 WHERE id = 2")
	require.ErrorContains(t, a.try("ALTER TABLE t ADD UNIQUE INDEX v (v)"), "1062")
	a.exec("UPDATE t SET v = 14 WHERE id = 2")

	done, goOn := stuckBuild(t, c, a, "ALTER TABLE t ADD UNIQUE INDEX v (v), ADD INDEX w (s, v)")
	first.Kill()
	require.Error(t, await(t, done), "its connection is gone")
	awaitTakeOver(t, b, first)
	first.start()
	change(b, first.open())
	goOn()
	eventually(t, "it is done", func() bool { return b.record() == "" })
	require.Equal(t, "synced", b.lastJob("state"))
	b.exec("ADMIN CHECK TABLE t")
	b.nothingIsLeft()

	pd, err := c.Open()
	require.NoError(t, err)
	_, err = etcdOf(t, pd).Put(t.Context(), "/tidb/cdc/default/orders/changefeed/info/x", `{"state":"normal","start-ts":1}`)
	require.NoError(t, err)
	before, conn := b.value("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"), b.session()
	must(t, conn, "ALTER TABLE t ADD INDEX theirs (s)")
	var level, note string
	var code int
	require.NoError(t, conn.QueryRowContext(t.Context(), "SHOW WARNINGS").Scan(&level, &code, &note))
	require.Contains(t, note, "for the changefeeds default/orders/x")
	require.Equal(t, before, b.value("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"))
	b.exec("ADMIN CHECK TABLE t")
}
