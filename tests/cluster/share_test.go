package cluster

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sharing starts nodes that build indexes together, however small the table.
func sharing(t testing.TB, c cluster, count int) []*node {
	t.Helper()
	var nodes []*node
	for range count {
		nodes = append(nodes, startNode(t, c))
	}
	nodes[0].setGlobal("tidb_ddl_enable_fast_reorg", "ON") // TiDB does not have the next one without
	nodes[0].setGlobal("tidb_enable_dist_task", "ON")
	nodes[0].setGlobal("fastddl_ddl_part_size", "1")
	for _, n := range nodes {
		db := n.open()
		require.Eventually(t, func() bool {
			return db.value("SELECT CONCAT(@@global.tidb_enable_dist_task, @@global.fastddl_ddl_part_size)") == "11"
		}, hangTimeout, 10*time.Millisecond, "it knows the variables")
	}
	return nodes
}

// holders are the nodes that hold parts of the job of this database.
func (c client) holders() (addrs []string) {
	c.t.Helper()
	for _, row := range c.rows("SELECT DISTINCT SUBSTRING_INDEX(p.holder, '/', 1) AS addr FROM mysql.fastddl_build_parts p " +
		"JOIN mysql.fastddl_ddl_jobs j USING (job_id) WHERE p.state = 'held' AND j.db_name = DATABASE()") {
		addrs = append(addrs, row["addr"])
	}
	return addrs
}

// noParts checks that nothing is left of a build that was shared: no part, and no file on
// any node.
func (c client) noParts(nodes ...*node) {
	c.t.Helper()
	require.Empty(c.t, c.rows("SELECT p.part FROM mysql.fastddl_build_parts p JOIN mysql.fastddl_ddl_jobs j USING (job_id) WHERE j.db_name = DATABASE()"))
	for _, n := range nodes {
		temp := n.args[slices.Index(n.args, "--temp-dir")+1]
		require.Eventually(c.t, func() bool { return len(jobFiles(temp)) == 0 }, hangTimeout, 10*time.Millisecond, "the files of %s are gone", n.Addr)
	}
}

// jobFiles are the folders of index builds below a node's folder for temporary files.
func jobFiles(temp string) (found []string) {
	_ = filepath.WalkDir(temp, func(path string, d fs.DirEntry, err error) error { // what goes meanwhile is gone
		if err == nil && strings.HasPrefix(d.Name(), "job-") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// TestNodesShareABuild: three nodes build an index together; a helper that crashes, or is
// stopped for longer than its lease, loses its part to the others, and so does the owner.
// Nothing that was written meanwhile is missed.
func TestNodesShareABuild(t *testing.T) {
	t.Parallel()
	for _, loss := range []struct {
		name string
		lose func(nodes []*node) (back func())
	}{
		{"no node is lost", func([]*node) func() { return func() {} }},
		{"a helper is killed", func(nodes []*node) func() {
			nodes[2].Kill()
			return nodes[2].start
		}},
		{"a helper is stopped", func(nodes []*node) func() {
			require.NoError(t, nodes[2].Cmd.Process.Signal(syscall.SIGSTOP))
			return func() { require.NoError(t, nodes[2].Cmd.Process.Signal(syscall.SIGCONT)) }
		}},
		{"the owner is killed", func(nodes []*node) func() {
			nodes[0].Kill()
			return nodes[0].start
		}},
	} {
		t.Run(loss.name, func(t *testing.T) {
			t.Parallel()
			needsStandIn(t, "it counts on all nodes having parts at one time")
			c := startCluster(t, nil)
			nodes := sharing(t, c, 3)
			b := nodes[1].open()
			fill(b, "t", 4000)
			done, goOn := stuckBuild(t, c, nodes[0].open(), "ALTER TABLE t ADD UNIQUE INDEX v (v)")
			eventually(t, "all nodes build", func() bool { return len(b.holders()) == 3 })
			change(b)
			back := loss.lose(nodes)
			if loss.name != "no node is lost" {
				began := time.Now()
				eventually(t, "the part is taken from it", func() bool { return len(b.holders()) == 2 })
				took := time.Since(began)
				t.Logf("taken from it after %s", took)
			}
			goOn()
			if strings.HasSuffix(loss.name, "stopped") { // the others finish everything but what waits for its word
				eventually(t, "the entries are complete", func() bool { return b.record() == "" || !strings.Contains(b.record(), `"step":"snapshot"`) })
			}
			back()
			err := await(t, done)
			if loss.name == "the owner is killed" {
				require.Error(t, err, "its connection is gone")
			} else {
				require.NoError(t, err)
			}
			eventually(t, "it is done", func() bool { return b.record() == "" })
			require.Equal(t, "synced 4000", b.lastJob("CONCAT(state, ' ', row_count)"))
			for _, n := range nodes {
				db := n.open()
				db.exec("ADMIN CHECK TABLE t")
				require.Equal(t, "1", db.value("SELECT COUNT(*) FROM t USE INDEX (v) WHERE v > 1000000"))
			}
			b.nothingIsLeft()
			b.noParts(nodes...)
		})
	}
}

// TestControlOfASharedBuild: whichever node is asked, all of them pause, resume and stop.
func TestControlOfASharedBuild(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it counts on all nodes having parts at one time")
	c := startCluster(t, nil)
	nodes := sharing(t, c, 3)
	a, b := nodes[0].open(), nodes[2].open()
	fill(b, "t", 4000)
	done, goOn := stuckBuild(t, c, a, "ALTER TABLE t ADD INDEX v (v)")
	defer goOn()
	eventually(t, "all nodes build", func() bool { return len(b.holders()) == 3 })
	id := b.lastJob("job_id")
	timed := func(what string, act string, is func() bool) {
		t.Helper()
		began := time.Now()
		b.exec(fmt.Sprintf("ADMIN %s DDL JOBS %s", act, id))
		eventually(t, what, is)
		t.Logf("%s after %s", what, time.Since(began))
	}
	timed("no node builds", "PAUSE", func() bool { return len(b.holders()) == 0 && b.lastJob("state") == "paused" })
	timed("all build again", "RESUME", func() bool { return len(b.holders()) == 3 })
	timed("it is undone", "CANCEL", func() bool { return b.record() == "" })
	require.ErrorContains(t, await(t, done), "Cancelled DDL job")
	goOn()
	b.exec("ADMIN CHECK TABLE t")
	b.nothingIsLeft()
	b.noParts(nodes...)
}
