package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// jobOwner returns who runs the only job that has not ended, by the address of the node, and
// how many have before.
func (c client) jobOwner() (addr string, epoch int) {
	c.t.Helper()
	var record struct {
		Owner string `json:"owner"`
		Epoch int    `json:"epoch"`
	}
	text := c.record()
	if text == "" {
		return "", 0
	}
	require.NoError(c.t, json.Unmarshal([]byte(text), &record))
	addr, _, _ = strings.Cut(record.Owner, "/")
	return addr, record.Epoch
}

// awaitTakeOver waits until another node than the given one runs the job.
func awaitTakeOver(t *testing.T, db client, from *node) {
	t.Helper()
	began := time.Now()
	eventually(t, "another node takes the job over", func() bool {
		addr, epoch := db.jobOwner()
		return epoch >= 1 && addr != from.Addr
	})
	t.Logf("taken over after %s", time.Since(began))
}

// change writes rows of the table everywhere, and is undone by nothing.
func change(dbs ...client) {
	for i, db := range dbs {
		at := 10 * (i + 1)
		db.exec(fmt.Sprintf("UPDATE t SET v = -v WHERE id = %d", at), fmt.Sprintf("DELETE FROM t WHERE id = %d", at+1),
			fmt.Sprintf("INSERT INTO t VALUES (%d, %d, 'new')", -at, 1000000+at))
	}
}

// TestBuilderIsKilled: a build whose node crashes while it imports goes on at another one,
// and misses nothing that was written meanwhile.
func TestBuilderIsKilled(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"ALTER TABLE t ADD INDEX v (v)", "ALTER TABLE t ADD UNIQUE INDEX v (v)"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			c := anyCluster(t)
			first, second, third := startNode(t, c), startNode(t, c), startNode(t, c)
			b, d := second.open(), third.open()
			fill(b, "t", 2000)
			done, goOn := stuckBuild(t, c, first.open(), statement)
			change(b, d)
			first.Kill()
			require.Error(t, await(t, done), "its connection is gone")
			awaitTakeOver(t, b, first)
			goOn()
			// The others wait for the word of a server that they have not heard the end of: it
			// comes back, or its lease as a server runs out.
			first.start()
			eventually(t, "it is done", func() bool { return b.record() == "" })
			require.Equal(t, "synced", d.lastJob("state"))
			for _, db := range []client{b, d, first.open()} {
				db.exec("ADMIN CHECK TABLE t")
				require.Len(t, db.rows("SHOW INDEX FROM t WHERE key_name = 'v'"), 1)
				require.Equal(t, "2", db.value("SELECT COUNT(*) FROM t USE INDEX (v) WHERE v > 1000000"))
			}
			b.nothingIsLeft()
		})
	}
}

// TestBuilderIsStopped: a node that was stopped for longer than its lease and goes on does
// nothing to a job that is another's by then. The session that waits for it gets its result.
func TestBuilderIsStopped(t *testing.T) {
	t.Parallel()
	c := anyCluster(t)
	first, second := startNode(t, c), startNode(t, c)
	b := second.open()
	fill(b, "t", 2000)
	done, goOn := stuckBuild(t, c, first.open(), "ALTER TABLE t ADD INDEX v (v)")
	require.NoError(t, first.Cmd.Process.Signal(syscall.SIGSTOP))
	awaitTakeOver(t, b, first)
	change(b)
	goOn()
	var before string // the last record that was seen, or that it was when the index was public
	eventually(t, "the index is public", func() bool {
		record := b.record()
		if record != "" {
			before = record
		}
		return record == "" || strings.Contains(record, `"step":"public"`)
	})
	require.NoError(t, first.Cmd.Process.Signal(syscall.SIGCONT))
	eventually(t, "it lets the job go", func() bool { return strings.Contains(first.Stderr.String(), "not run by this node any more") })
	require.NoError(t, await(t, done))
	require.NotContains(t, before, first.Addr+"/")
	if live == "" { // where any node may have taken it
		require.Contains(t, before, second.Addr+"/")
	}
	require.Equal(t, "synced", b.lastJob("state"))
	a := first.open()
	for _, db := range []client{a, b} {
		db.exec("ADMIN CHECK TABLE t")
		require.Equal(t, "1", db.value("SELECT COUNT(*) FROM t USE INDEX (v) WHERE v > 1000000"))
	}
	b.nothingIsLeft()
	// It is one of the cluster again.
	a.exec("ALTER TABLE t DROP INDEX v")
	eventually(t, "it builds again", func() bool { return strings.Contains(first.Stderr.String(), "is a member of the cluster again") })
	a.exec("ALTER TABLE t ADD UNIQUE INDEX v (v)", "ADMIN CHECK TABLE t")
}

// TestBuilderLosesEtcd: a node that etcd has lost gives its jobs up, though it can read and
// write; the session that waits there gets the result.
func TestBuilderLosesEtcd(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it cuts a node off from PD's etcd")
	c := startCluster(t, nil)
	first, second := startNode(t, c), startNode(t, c)
	a, b := first.open(), second.open()
	fill(b, "t", 2000)
	done, goOn := stuckBuild(t, c, a, "ALTER TABLE t ADD UNIQUE INDEX v (v)")
	first.pd.CutEtcd()
	eventually(t, "it lets the job go", func() bool { return strings.Contains(first.Stderr.String(), "not run by this node any more") })
	awaitTakeOver(t, b, first)
	change(a, b)
	goOn()
	first.pd.Heal()
	require.NoError(t, await(t, done))
	for _, db := range []client{a, b} {
		db.exec("ADMIN CHECK TABLE t")
		require.Len(t, db.rows("SHOW INDEX FROM t WHERE key_name = 'v'"), 1)
	}
	b.nothingIsLeft()
}

// TestRollingRestart: the nodes are stopped and started one after the other while an index
// is built; the others go on at once.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it counts on no other node taking the build over")
	c := startCluster(t, nil)
	nodes := []*node{startNode(t, c), startNode(t, c)}
	db := nodes[1].open()
	fill(db, "t", 2000)
	done, goOn := stuckBuild(t, c, nodes[0].open(), "ALTER TABLE t ADD INDEX v (v)")
	require.Zero(t, nodes[0].Terminate())
	require.Error(t, await(t, done), "the statement ends with its server")
	awaitTakeOver(t, db, nodes[0])
	nodes[0].start()
	require.Zero(t, nodes[1].Terminate())
	db = nodes[0].open()
	eventually(t, "it comes back to the first", func() bool {
		addr, epoch := db.jobOwner()
		return epoch >= 2 && addr == nodes[0].Addr
	})
	goOn()
	nodes[1].start()
	eventually(t, "it is done", func() bool { return db.record() == "" })
	db.exec("ADMIN CHECK TABLE t")
	require.Len(t, db.rows("SHOW INDEX FROM t WHERE key_name = 'v'"), 1)
	db.nothingIsLeft()
}
