package cluster

import (
	"os"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"fastddl/tests/cluster/standin"
)

// slowIngest makes builds wait for the store, so that something can happen to them.
func slowIngest(c *standin.Cluster) *standin.Injected {
	return c.Faults().Inject(standin.Fault{Commands: []string{"MultiIngest"}, Region: standin.ServerIsBusy})
}

// TestOwnerIsKilled: an index build goes on when the node that runs it crashes, and
// misses nothing that was written meanwhile.
func TestOwnerIsKilled(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it has imports wait for the stand-in")
	needsImport(t)
	c := startCluster(t, nil)
	gone, left := owner(t, startNode(t, c), startNode(t, c))
	db := left[0].open()
	db.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
	busy := slowIngest(c)
	build := db.later("ALTER TABLE t ADD INDEX v (v)")
	eventually(t, "the build waits for the store", func() bool { return busy.Hits() > 0 })
	gone.Kill()
	db.exec("INSERT INTO t VALUES (4, 4)", "UPDATE t SET v = 20 WHERE id = 2", "DELETE FROM t WHERE id = 1")
	busy.Remove()
	heir, _ := owner(t, left...)
	require.Same(t, left[0], heir)
	// What is left of the build needs the word of all nodes: that of one that does not come
	// back is waited for until its lease has run out.
	if os.Getenv("FASTDDL_LONG") == "" {
		gone.start()
	}
	require.NoError(t, await(t, build))
	db.exec("ADMIN CHECK TABLE t")
	require.Equal(t, "2", db.value("SELECT id FROM t USE INDEX (v) WHERE v = 20"))
	if gone.Exited() {
		gone.start()
	}
	gone.open().exec("ALTER TABLE t DROP INDEX v", "ADMIN CHECK TABLE t")
}

// TestOwnerLosesEtcd: a node that etcd has lost owns the DDL no more. It reads and writes
// meanwhile, and is one of the cluster again when it is back.
func TestOwnerLosesEtcd(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it cuts a node off from PD's etcd")
	c := startCluster(t, nil)
	cut, left := owner(t, startNode(t, c), startNode(t, c))
	a, b := cut.open(), left[0].open()
	a.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
	cut.pd.CutEtcd()
	heir, _ := owner(t, left...)
	require.Same(t, left[0], heir)
	change := b.later("ALTER TABLE t ADD INDEX v (v)")
	for range 10 {
		a.exec("UPDATE t SET v = v + 1")
	}
	cut.pd.Heal()
	require.NoError(t, await(t, change))
	a.exec("ADMIN CHECK TABLE t", "ALTER TABLE t ADD COLUMN w INT DEFAULT 5")
	require.Equal(t, "16", b.value("SELECT v + w FROM t USE INDEX (v)"))
}

// TestNodeIsCutOff: a node that has lost PD altogether holds its statements up, fails none
// that could be tried again, answers nothing wrong, and goes on when PD is back.
func TestNodeIsCutOff(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it cuts a node off from PD")
	c := startCluster(t, nil)
	n, other := startNode(t, c), startNode(t, c)
	a, b := n.open(), other.open()
	a.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
	n.pd.Cut()
	late := a.later("UPDATE t SET v = v + 1")
	b.exec("UPDATE t SET v = v + 10")
	select {
	case err := <-late:
		require.FailNow(t, "it needs a timestamp of PD", "%v", err)
	case <-time.After(time.Second):
	}
	n.pd.Heal()
	require.NoError(t, await(t, late))
	b.exec("ALTER TABLE t ADD INDEX v (v)", "ADMIN CHECK TABLE t")
	require.Equal(t, "12", a.value("SELECT v FROM t USE INDEX (v)"))
}

// TestFaultsOfTheStore: errors of a store that the client is to retry do not reach the
// application.
func TestFaultsOfTheStore(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it orders faults of the store")
	c := startCluster(t, nil)
	db := startNode(t, c).open()
	db.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
	everything := []string{"Get", "BatchGet", "Scan", "Coprocessor", "Prewrite", "Commit", "PessimisticLock", "MultiIngest"}
	faults := map[string]func(*kvrpcpb.Context) *errorpb.Error{
		"not leader": standin.NotLeader, "epoch not match": standin.EpochNotMatch,
		"region not found": standin.RegionNotFound, "server is busy": standin.ServerIsBusy,
	}
	for name, regionErr := range faults {
		t.Run(name, func(t *testing.T) {
			db := db.in(t)
			for _, command := range everything {
				c.Faults().Inject(standin.Fault{Commands: []string{command}, Times: 2, Region: regionErr})
			}
			db.exec("BEGIN PESSIMISTIC", "UPDATE t SET v = v + 1 WHERE id IN (1, 2)", "COMMIT",
				"ALTER TABLE t ADD INDEX v (v)", "ADMIN CHECK TABLE t", "ALTER TABLE t DROP INDEX v")
		})
	}
	t.Run("broken connection", func(t *testing.T) {
		db := db.in(t)
		broken := c.Faults().Inject(standin.Fault{Commands: []string{"Get", "Coprocessor"}, Times: 2, Break: true})
		db.value("SELECT v FROM t WHERE id = 1")
		db.value("SELECT SUM(v) FROM t")
		require.Equal(t, 2, broken.Hits())
	})
	require.Equal(t, "11", db.value("SELECT SUM(v) FROM t"))
}
