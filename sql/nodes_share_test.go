package sql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/ddl/dist"
	"fastddl/ingest"
	"fastddl/internal/randtest"
	"fastddl/kv"
)

// An index is built by all nodes, each of which has a part at the same time.
func TestNodesBuildTogether(t *testing.T) {
	n := newBuildNodes(t, 3)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStopped("ALTER TABLE t ADD INDEX i (b), ADD UNIQUE INDEX u (c)")
	require.Equal(t, "3", c.one("SELECT COUNT(DISTINCT holder) FROM mysql.fastddl_build_parts WHERE state = 'held'"))
	leave()
	require.NoError(t, wait(t, result))
	total := n.totalOf((*buildNode).parts)
	require.Equal(t, 12, total)
	require.Less(t, n.nodes[0].builds+n.nodes[1].builds+n.nodes[2].builds, total, "what a node has is built together")
	require.Equal(t, "1000 100", c.lastJob("row_count, percent"))
	n.requireBuilt(c, "t")
}

// What the verification does not find right is built again, in other parts than before.
func TestNodesRebuildWhatFailedVerification(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 1000)
	n.nodes[1].miscounts.Store(true)
	result, leave := n.startStopped("ALTER TABLE t ADD INDEX i (b)")
	parts := c.one("SELECT COUNT(*) FROM mysql.fastddl_build_parts")
	leave()
	require.NoError(t, wait(t, result))
	require.False(t, n.nodes[1].miscounts.Load())
	require.Equal(t, parts, fmt.Sprint((n.nodes[0].parts()+n.nodes[1].parts())/2), "twice as many are built")
	require.Equal(t, "1000", c.lastJob("row_count"))
	n.requireBuilt(c, "t")
}

// A node that is gone in the middle of a part loses it to others, which fence it off first
// and go on; what it does late changes nothing, and when it is back it helps again.
func TestSharedBuildSurvivesALostNode(t *testing.T) {
	randtest.SkipShort(t)
	n := newBuildNodes(t, 3)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStopped(addUnique)
	defer leave()
	lost := n.nodes[2]
	part := c.one("SELECT part FROM mysql.fastddl_build_parts WHERE holder LIKE 'node3/%%'")
	before := n.fencedRanges()
	letIn := lost.shutOut()
	life := lost.forget() // and does not know
	n.nodes[0].leave()
	n.nodes[1].leave()
	require.NoError(t, wait(t, result))
	require.Greater(t, n.fencedRanges(), before)
	require.Zero(t, lost.parts())
	c.check("t")
	require.Empty(t, c.run("SELECT part FROM mysql.fastddl_build_parts"), "of them %s", part)

	life.notice()
	leave()
	letIn()
	require.Eventually(t, func() bool { return lost.alive() }, hangTimeout, time.Millisecond)
	c.run("ALTER TABLE t DROP INDEX u")
	result, leave = n.startStopped("ALTER TABLE t ADD INDEX i (b)")
	leave()
	require.NoError(t, wait(t, result))
	require.Positive(t, lost.parts())
	n.requireBuilt(c, "t")
}

// A node that is gone loses all parts that it builds together.
func TestLostNodeLosesAllItsParts(t *testing.T) {
	randtest.SkipShort(t)
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 1000)
	lost := n.nodes[1]
	stop, arrived, goOn := gate()
	var begun atomic.Int64
	hook := func(ctx context.Context, _ dist.SubtasksTask) error {
		if begun.Add(1) < 3 {
			return nil
		}
		return stop(ctx)
	}
	lost.part.Store(&hook)
	_, leave := n.nodes[0].stop() // or there may be too few parts for the other one
	result := n.start(addUnique)
	reach(t, arrived)
	require.Equal(t, "3", c.one("SELECT COUNT(*) FROM mysql.fastddl_build_parts WHERE state = 'held' AND holder LIKE 'node2/%%'"))
	letIn := lost.shutOut()
	life := lost.forget()
	leave()
	require.NoError(t, wait(t, result))
	require.Zero(t, lost.parts())
	require.Equal(t, 12, n.nodes[0].parts())
	life.notice()
	goOn()
	letIn()
	n.requireBuilt(c, "t")
}

// A node that has not heard that a part is its own takes it all the same: no other node may.
func TestClaimWhoseAnswerIsLost(t *testing.T) {
	n := newBuildNodes(t, 1)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStopped(addUnique)
	first := c.one("SELECT part, holder FROM mysql.fastddl_build_parts WHERE state = 'held'")
	part, holder, _ := strings.Cut(first, " ")
	require.Equal(t, "0", part)
	claim := fmt.Sprintf("UPDATE mysql.fastddl_build_parts SET state = 'held', holder = '%s', hold_epoch = hold_epoch + 1 WHERE part ", holder)
	c.run(claim + "= 5")
	leave()
	require.NoError(t, wait(t, result))
	require.Equal(t, 12, n.nodes[0].parts())
	n.requireBuilt(c, "t")
	c.run("ALTER TABLE t DROP INDEX u")

	// Also if there is nothing else for it to do.
	fails := func(context.Context, dist.SubtasksTask) error {
		c.run(claim + "> 0")
		n.nodes[0].part.Store(nil)
		return errors.New("a passing error")
	}
	n.nodes[0].part.Store(&fails)
	require.NoError(t, wait(t, n.start(addUnique)))
	require.Equal(t, 24, n.nodes[0].parts())
	n.requireBuilt(c, "t")
}

// Cancelling a job does not wait for a node that does not know that it holds a part.
func TestCancelBesideAClaimWhoseAnswerIsLost(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 1000)
	for _, own := range []bool{true, false} {
		result, leave := n.startStopped(addUnique)
		order := map[bool]string{true: "ASC", false: "DESC"}[own]
		holder := c.one("SELECT holder FROM mysql.fastddl_build_parts WHERE state = 'held' ORDER BY holder %s LIMIT 1", order)
		c.run("UPDATE mysql.fastddl_build_parts SET state = 'held', holder = '%s', hold_epoch = hold_epoch + 1 WHERE part = 5", holder)
		require.NoError(t, n.DDL().Cancel(t.Context(), n.jobID(c)))
		leave()
		require.Equal(t, 8214, errorCode(wait(t, result)))
		n.leavesNothing(c, "t")
	}
}

// However often a node looks whether its parts are its own still, it does not take one that
// it has just claimed for lost.
func TestClaimedPartIsNotTakenForLost(t *testing.T) {
	randtest.SkipShort(t)
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 1000)
	var begun atomic.Int64
	hook := func(context.Context, dist.SubtasksTask) error {
		begun.Add(1)
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	for _, node := range n.nodes {
		node.part.Store(&hook)
		looking.Go(func() {
			for ctx.Err() == nil {
				node.Notify(ctx)
			}
		})
	}
	const builds = 5
	for range builds {
		c.run("ALTER TABLE t ADD INDEX i (b); ALTER TABLE t DROP INDEX i")
	}
	stop()
	looking.Wait()
	require.EqualValues(t, 12*builds, begun.Load(), "each part is claimed once")
}

// A node that has lost its lease while it holds a part, and goes on with it, writes nothing
// for the part: neither its result, nor a checkpoint, nor that it has given it back. It is
// not permitted to import.
func TestLateNodeTouchesNothing(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 300)
	late := n.nodes[1]
	came, left, saved := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	var once sync.Once
	hook := func(ctx context.Context, t dist.SubtasksTask) error {
		once.Do(func() {
			close(came)
			<-left
			saved <- kv.CheckPermit(ctx)
			saved <- t.Save(context.WithoutCancel(ctx), [][]byte{[]byte("late")})
		})
		return errors.New("late")
	}
	late.part.Store(&hook)
	arrived, leave := n.nodes[0].stop()
	result := n.start("ALTER TABLE t ADD INDEX i (b)")
	reach(t, came)
	reach(t, arrived)
	row := "SELECT state, holder, hold_epoch, failures, HEX(checkpoint), HEX(result) FROM mysql.fastddl_build_parts WHERE part = " +
		c.one("SELECT part FROM mysql.fastddl_build_parts WHERE holder LIKE 'node2/%%'")
	late.shutOut()
	life := late.forget()
	life.dead.Store(true) // by the clock; no goroutine has woken up yet
	require.Eventually(t, func() bool { return strings.HasPrefix(c.one(row), "open ") }, hangTimeout, time.Millisecond)
	before := c.one(row)
	close(left)
	require.Error(t, <-saved, "imports are not permitted")
	require.Error(t, <-saved, "the checkpoint is refused")
	life.notice()
	require.NoError(t, late.ddl.Close(), "it has ended all it did")
	require.Equal(t, before, c.one(row))
	leave()
	require.NoError(t, wait(t, result))
	n.requireBuilt(c, "t")
}

// A part is open again, with its checkpoint, when its holder stops in good order, and
// no node waits for a lease to end.
func TestLeavingNodeGivesItsPartsBack(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 300)
	result, leave := n.startStopped("ALTER TABLE t ADD INDEX i (b)")
	fences := n.fencedRanges()
	require.NoError(t, n.nodes[1].ddl.Close())
	require.Equal(t, "1", c.one("SELECT COUNT(*) FROM mysql.fastddl_build_parts WHERE state = 'held'"))
	leave()
	require.NoError(t, wait(t, result))
	// The owner fences once if it has read the parts before and the members after it.
	require.LessOrEqual(t, n.fencedRanges(), fences+1)
	n.requireBuilt(c, "t")
}

// A node that is alone builds what is not large in one piece, which a second one would
// divide: what parts import overlaps.
func TestNodeAloneDoesNotDivide(t *testing.T) {
	n := newBuildNodes(t, 1)
	c := n.client()
	table(c, 1000)
	c.run("SET GLOBAL fastddl_ddl_part_size = 400000") // of the megabyte that the store says
	defer c.run("SET GLOBAL fastddl_ddl_part_size = DEFAULT")
	c.run("ALTER TABLE t ADD INDEX i (b)")
	require.Zero(t, n.nodes[0].parts())
	joined := n.join("node2")
	require.Eventually(t, joined.alive, hangTimeout, time.Millisecond)
	c.run("ALTER TABLE t ADD INDEX j (b)")
	require.Equal(t, 2, n.nodes[0].parts()+joined.parts())
	n.requireBuilt(c, "t")
}

// A node that joins while a job runs takes parts of it.
func TestJoiningNodeTakesParts(t *testing.T) {
	n := newBuildNodes(t, 1)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStopped("ALTER TABLE t ADD INDEX i (b)")
	joined := n.join("late")
	require.Eventually(t, func() bool { return joined.parts() == 11 }, hangTimeout, time.Millisecond)
	leave()
	require.NoError(t, wait(t, result))
	require.Equal(t, 1, n.nodes[0].parts())
	n.requireBuilt(c, "t")
}

// What a node that has died left on its disk of a part is removed when it starts, and not
// only when it builds another: here there is none for it to take.
func TestFilesOfALostPart(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 300)
	c.run("SET GLOBAL tidb_max_dist_task_nodes = 2")
	result, leave := n.startStopped("ALTER TABLE t ADD INDEX i (b)")
	files := ingest.JobDir(n.dir+"/late", n.jobID(c))
	require.NoError(t, os.MkdirAll(files+"/run", 0o700))
	n.join("late")
	require.NoDirExists(t, files)
	leave()
	require.NoError(t, wait(t, result))
	n.requireBuilt(c, "t")
}

// Regardless of the node that is asked, no node builds any more when a pause, or a cancellation, has had its
// effect, and all go on after it.
func TestControlOfSharedBuilds(t *testing.T) {
	randtest.SkipShort(t)
	n := newBuildNodes(t, 3)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStopped(addUnique)
	id, asked := n.jobID(c), n.nodes[1].ddl
	held := "SELECT COUNT(*) FROM mysql.fastddl_build_parts WHERE state = 'held'"
	require.NoError(t, asked.Pause(t.Context(), id))
	state := func() string { return c.one("SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = %d", id) }
	require.Eventually(t, func() bool { return state() == "paused" }, hangTimeout, time.Millisecond)
	require.Equal(t, "0", c.one(held))
	require.Empty(t, c.run("SELECT part FROM mysql.fastddl_build_parts WHERE wanted"))

	require.NoError(t, asked.Resume(t.Context(), id))
	require.Eventually(t, func() bool { return c.one(held) == "3" }, hangTimeout, time.Millisecond)
	threads := 7
	require.NoError(t, asked.Alter(t.Context(), id, ddl.Alteration{Threads: &threads}))
	for _, node := range n.nodes {
		require.Eventually(t, func() bool { return node.threads() == threads }, hangTimeout, time.Millisecond, node.name)
	}

	began := time.Now()
	require.NoError(t, asked.Cancel(t.Context(), id))
	require.Equal(t, 8214, errorCode(wait(t, result)))
	t.Logf("cancelled on all nodes in %s", time.Since(began))
	leave()
	n.requireNothingLeft(c)
	n.leavesNothing(c, "t")
}

// Parts are the job's, not its owner's: when that is gone the others go on with what they
// hold, and the next owner with what is done.
func TestOwnerOfSharedBuildIsLost(t *testing.T) {
	n := newBuildNodes(t, 3)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStopped(addUnique)
	holds := func() []string {
		return c.run("SELECT part, holder, hold_epoch FROM mysql.fastddl_build_parts WHERE state = 'held' AND holder NOT LIKE 'node1/%%' ORDER BY part")
	}
	before := holds()
	require.Len(t, before, 2)
	fences := n.fencedRanges()
	letIn := n.nodes[0].shutOut()
	n.nodes[0].forget().notice()
	require.Eventually(t, func() bool {
		return c.one("SELECT JSON_EXTRACT(CONVERT(record USING utf8mb4), '$.epoch') FROM mysql.fastddl_ddl_record") == "1"
	}, hangTimeout, time.Millisecond)
	require.Equal(t, before, holds())
	leave()
	require.NoError(t, wait(t, result))
	require.Positive(t, n.nodes[1].parts())
	require.Positive(t, n.nodes[2].parts())
	require.Equal(t, fences+1, n.fencedRanges(), "the part of the owner that is gone needs no fence of its own")
	letIn()
	n.requireBuilt(c, "t")
}

// Nothing is undone of a job, by its next owner either, while a node may still import.
func TestUndoWaitsForParts(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 300)
	other := n.nodes[1]
	came, left := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hook := func(ctx context.Context, _ dist.SubtasksTask) error { // does not obey
		once.Do(func() {
			close(came)
			<-left
		})
		return context.Cause(ctx)
	}
	other.part.Store(&hook)
	_, goOn := n.nodes[0].stop() // or it may build everything before the other node claims one
	result := n.start(addUnique)
	reach(t, came)
	goOn()
	undone := make(chan string, 1)
	n.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "after" && p.Action == "change-schema" {
			select {
			case undone <- c.one("SELECT COUNT(*) FROM mysql.fastddl_build_parts WHERE state = 'held'"):
			default:
			}
		}
		return nil
	})
	require.NoError(t, n.nodes[0].ddl.Cancel(t.Context(), n.jobID(c)))
	waits := func() bool { return strings.HasPrefix(c.lastJob("wait_reason"), "node2, to end") }
	require.Eventually(t, waits, hangTimeout, time.Millisecond)
	close(left)
	require.Equal(t, 8214, errorCode(wait(t, result)))
	require.Equal(t, "0", <-undone)
	n.leavesNothing(c, "t")
}

// Rows with equal values in parts of different nodes are duplicates like any others.
func TestDuplicatesInPartsOfTwoNodes(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 1000)
	c.run("UPDATE t SET b = -1 WHERE a IN (3, 100)") // in the first and the second part, which different nodes claim
	result, leave := n.startStopped(addUnique)
	leave()
	require.Equal(t, 1062, errorCode(wait(t, result)))
	require.Equal(t, "u -1 2 3, 100", c.one("SELECT index_name, entry, row_count, row_handles FROM mysql.fastddl_ddl_duplicates"))
	require.Positive(t, n.nodes[1].parts())
	n.requireNothingLeft(c)

	c.run("UPDATE t SET b = a * 7 WHERE a = 100; UPDATE t SET b = -1 WHERE a = 4") // and in one part
	result, leave = n.startStopped(addUnique)
	leave()
	require.Equal(t, 1062, errorCode(wait(t, result)))
	require.Equal(t, "2 3, 4", c.one("SELECT row_count, row_handles FROM mysql.fastddl_ddl_duplicates ORDER BY job_id DESC LIMIT 1"))
	require.Contains(t, c.lastJob("error"), "Duplicate entry '?' for key 't.u'")
	n.leavesNothing(c, "t")
}

// A value that an index cannot take names its row, whichever node meets it.
func TestValuesInPartsOfTwoNodes(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 1000)
	for _, a := range []int{3, 100} { // in the first and the second part, which different nodes claim
		result, leave := n.startStopped(fmt.Sprintf("ALTER TABLE t ADD INDEX i ((7 DIV (b - %d)))", a*7))
		leave()
		err := wait(t, result)
		require.Equal(t, 1365, errorCode(err))
		require.ErrorContains(t, err, pointer)
		require.Equal(t, []string{fmt.Sprintf("i 1365 %d %d", a, a*7)}, c.errorRows("index_name, error_code, row_handle, value"))
		n.requireNothingLeft(c)
	}
	n.leavesNothing(c, "t")
}

// TestPartsThatAreWrong: a part that has met an error of the store may still be wrong once; the node that builds it then, which may
// be another one, knows that it was, and the job goes on.
func TestPartsThatAreWrong(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 300)
	var mu sync.Mutex
	var first string
	var wrong []bool // at the beginning of the attempts at one part
	hook := func(_ context.Context, task dist.SubtasksTask) error {
		mu.Lock()
		defer mu.Unlock()
		if start := string(task.First.Subtask.Ranges[0].Start); first == "" {
			first = start
		} else if first != start {
			return nil
		}
		if wrong = append(wrong, task.First.Wrong); len(wrong) == 1 {
			return errors.New("time-out")
		} else if len(wrong) == 2 {
			return &kv.ScanCountError{Rows: 1, Visited: 2}
		} else if len(wrong) == 3 {
			return errors.New("time-out again")
		}
		return nil
	}
	for _, node := range n.nodes {
		node.part.Store(&hook)
	}
	c.run("ALTER TABLE t ADD INDEX i (b)")
	mu.Lock()
	defer mu.Unlock()
	require.GreaterOrEqual(t, len(wrong), 4)
	require.Equal(t, []bool{false, false, true, true}, wrong[:4])
	n.requireBuilt(c, "t")
}

// An error of the data is the job's, whichever node meets it; any other is tried again, by
// the first node to reach it.
func TestPartsThatFail(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 300)
	for _, node := range n.nodes {
		var failures atomic.Int64
		hook := func(context.Context, dist.SubtasksTask) error {
			if failures.Add(1) <= 2 {
				return errors.New("a passing error")
			}
			return nil
		}
		node.part.Store(&hook)
	}
	require.NoError(t, wait(t, n.start(addUnique)))
	n.requireBuilt(c, "t")
	c.run("ALTER TABLE t DROP INDEX u")

	_, stay := n.nodes[0].stop()
	panics := func(context.Context, dist.SubtasksTask) error { panic("in a part") }
	n.nodes[1].part.Store(&panics)
	require.ErrorContains(t, wait(t, n.start(addUnique)), "panic in the build of a part: in a part")
	stay()
	n.leavesNothing(c, "t")

	fails := func(context.Context, dist.SubtasksTask) error { return errors.New("for ever") }
	for _, node := range n.nodes {
		node.part.Store(&fails)
	}
	c.run("SET GLOBAL tidb_ddl_error_count_limit = 3")
	require.ErrorContains(t, wait(t, n.start(addUnique)), "for ever")
	c.run("SET GLOBAL tidb_ddl_error_count_limit = DEFAULT")
	n.leavesNothing(c, "t")
}

// A node whose temp folder is full gives its parts back and rests, which is no error of the
// job's: it would be undone for it after a while.
func TestPartsWaitForRoom(t *testing.T) {
	randtest.SkipShort(t)
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 300)
	c.run("SET GLOBAL tidb_ddl_error_count_limit = 0")
	defer c.run("SET GLOBAL tidb_ddl_error_count_limit = DEFAULT")
	var full atomic.Int64
	for _, node := range n.nodes {
		hook := func(context.Context, dist.SubtasksTask) error {
			if full.Add(1) <= 4 {
				return fmt.Errorf("ingest: write run: %w", &os.PathError{Op: "write", Path: "run", Err: syscall.ENOSPC})
			}
			return nil
		}
		node.part.Store(&hook)
	}
	require.NoError(t, wait(t, n.start(addUnique)))
	require.Greater(t, full.Load(), int64(4))
	require.Equal(t, "0", c.lastJob("error_count"))
	n.requireBuilt(c, "t")
}

// A node that finds S collected has the job take another one, as the job's owner does.
func TestSharedBuildTakesANewSnapshot(t *testing.T) {
	n := newBuildNodes(t, 2)
	c := n.client()
	table(c, 300)
	c.run("SET GLOBAL tidb_ddl_error_count_limit = 0")
	defer c.run("SET GLOBAL tidb_ddl_error_count_limit = DEFAULT")
	var first atomic.Uint64
	for _, node := range n.nodes {
		hook := func(_ context.Context, p dist.SubtasksTask) error {
			if first.CompareAndSwap(0, p.Task.TS) {
				return fmt.Errorf("scan: %w", kv.ErrSnapshotTooOld)
			}
			return nil
		}
		node.part.Store(&hook)
	}
	require.NoError(t, wait(t, n.start(addUnique)))
	require.NotZero(t, first.Load())
	require.NotEqual(t, fmt.Sprint(first.Load()), c.lastJob("snapshot_ts"))
	require.Equal(t, "0", c.lastJob("error_count"))
	n.requireBuilt(c, "t")
}

// Which nodes build, and how many, is what TiDB's variables say when the statement comes.
func TestVariablesChooseTheNodesOfABuild(t *testing.T) {
	randtest.SkipShort(t)
	n := newBuildNodes(t, 3)
	c := n.client()
	table(c, 1000)
	held := "SELECT COUNT(DISTINCT holder) FROM mysql.fastddl_build_parts WHERE state = 'held'"
	build := func() (parts [3]int) {
		t.Helper()
		before := [3]int{n.nodes[0].parts(), n.nodes[1].parts(), n.nodes[2].parts()}
		c.run("ALTER TABLE t ADD INDEX i (b)")
		c.run("ALTER TABLE t DROP INDEX i")
		for i, node := range n.nodes {
			parts[i] = node.parts() - before[i]
		}
		return parts
	}
	scope := "elsewhere"
	n.nodes[1].scope.Store(&scope)
	n.nodes[2].scope.Store(&scope)
	require.Equal(t, [3]int{12, 0, 0}, build(), "nodes of another scope")
	variable.ServiceScope.Store(scope) // the first node's, and SET GLOBAL wants a client
	t.Cleanup(func() { variable.ServiceScope.Store("") })
	other, leave := n.startStopped("ALTER TABLE t ADD INDEX j (b)")
	leave()
	require.NoError(t, wait(t, other))
	c.run("ALTER TABLE t DROP INDEX j")
	none := ""
	variable.ServiceScope.Store(none)
	n.nodes[1].scope.Store(&none)
	n.nodes[2].scope.Store(&none)

	c.run("SET tidb_max_dist_task_nodes = 2")
	var stops []func()
	for _, node := range n.nodes {
		_, leave := node.stop()
		stops = append(stops, leave)
	}
	result := make(chan error, 1)
	go func() { _, err := c.try("ALTER TABLE t ADD INDEX i (b)"); result <- err }()
	look := n.client()
	require.Eventually(t, func() bool { return look.one(held) == "2" }, hangTimeout, time.Millisecond)
	for _, node := range n.nodes { // all of them look again
		node.Notify(t.Context())
	}
	require.Never(t, func() bool { return look.one(held) != "2" }, 1500*time.Millisecond, 50*time.Millisecond)
	for _, stop := range stops {
		stop()
	}
	require.NoError(t, wait(t, result))
	c.run("ALTER TABLE t DROP INDEX i")

	c.run("SET tidb_max_dist_task_nodes = 1")
	require.Equal(t, [3]int{}, build(), "it is not worth dividing")
	c.fails(1231, "SET tidb_max_dist_task_nodes = 0")
	c.run("SET tidb_max_dist_task_nodes = -1; SET GLOBAL tidb_enable_dist_task = OFF")
	require.Equal(t, [3]int{}, build(), "OFF")
	c.run("SET GLOBAL tidb_enable_dist_task = ON; SET GLOBAL fastddl_ddl_part_size = DEFAULT")
	require.Equal(t, [3]int{}, build(), "a small table")
	n.requireNothingLeft(c)
}

// Partitions, several indexes and a mixed statement are divided like a plain table.
func TestSharedBuildOfPartitions(t *testing.T) {
	randtest.SkipShort(t)
	n := newBuildNodes(t, 3)
	c := n.client()
	c.run("CREATE TABLE p (a INT PRIMARY KEY, b INT, c VARCHAR(20)) PARTITION BY HASH (a) PARTITIONS 5")
	c.run("INSERT INTO p SELECT v, v * 7, CONCAT('c', v) FROM (WITH RECURSIVE s(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM s WHERE v < 900) SELECT v FROM s) x")
	result, leave := n.startStopped("ALTER TABLE p ADD INDEX i (b), ADD UNIQUE INDEX u (c, a), ADD UNIQUE INDEX g (b) GLOBAL, ADD COLUMN d INT DEFAULT 3")
	leave()
	require.NoError(t, wait(t, result))
	require.Equal(t, "900", c.lastJob("row_count"))
	for _, node := range n.nodes {
		require.Positive(t, node.parts(), node.name)
	}
	n.requireBuilt(c, "p")
}

// Statements change the rows while several nodes build.
func TestSharedBuildUnderWriters(t *testing.T) {
	n := newBuildNodes(t, 3)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStopped(addUnique)
	c.run("UPDATE t SET b = b + 100000 WHERE a % 3 = 0; DELETE FROM t WHERE a % 7 = 1; INSERT INTO t VALUES (5000, 5000, 'new')")
	leave()
	c.run("UPDATE t SET b = b + 100000 WHERE a % 5 = 0")
	require.NoError(t, wait(t, result))
	n.requireBuilt(c, "t")
}

// A unique index is compared by all nodes, each of which has a part at the same time; what
// differs is repaired by the job's owner.
func TestNodesCompareTogether(t *testing.T) {
	n := newBuildNodes(t, 3)
	c, w := n.client(), n.client()
	table(c, 1000)
	n.before("backfill", "", func() { // leaves a tombstone over the entry of the row that has the value
		w.run("INSERT INTO t VALUES (5000, 7, '')")
		w.run("DELETE FROM t WHERE a = 5000")
	})
	result, leave := n.startStoppedBy((*buildNode).stopComparing, addUnique)
	require.Equal(t, "3 drained", c.one(`SELECT COUNT(DISTINCT holder), MAX(JSON_UNQUOTE(JSON_EXTRACT(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.step')))
		FROM mysql.fastddl_build_parts JOIN mysql.fastddl_ddl_record USING (job_id) WHERE state = 'held'`))
	leave()
	require.NoError(t, wait(t, result))
	total := n.totalOf((*buildNode).compared)
	require.Equal(t, 24, total, "twice, because of the repair")
	require.Equal(t, "2 1", c.lastJob("comparisons, repaired_keys"))
	n.requireBuilt(c, "t")
	require.Equal(t, "1", c.one("SELECT a FROM t USE INDEX (u) WHERE b = 7"))
}

// A comparison loses a node, is paused and resumed, and loses its owner: it is done in the
// end, and what late nodes have summed up is in no sum.
func TestSharedComparisonIsInterrupted(t *testing.T) {
	for name, interrupt := range map[string]func(t *testing.T, n *buildNodes, c *client) (after func()){
		"executor lost": func(t *testing.T, n *buildNodes, c *client) func() {
			lost := n.nodes[2]
			letIn := lost.shutOut()
			life := lost.forget()
			return func() {
				life.notice()
				letIn()
			}
		},
		"paused": func(t *testing.T, n *buildNodes, c *client) func() {
			c.run("ADMIN PAUSE DDL JOBS %d", n.jobID(c))
			require.Eventually(t, func() bool {
				return c.one("SELECT COUNT(*) FROM mysql.fastddl_build_parts WHERE state = 'held'") == "0"
			}, hangTimeout, time.Millisecond)
			c.run("ADMIN RESUME DDL JOBS %d", n.jobID(c))
			return func() {}
		},
		"executor fails": func(t *testing.T, n *buildNodes, c *client) func() {
			passing := errors.New("a passing error")
			n.nodes[1].fails.Store(&passing)
			return func() { require.Nil(t, n.nodes[1].fails.Load(), "it has failed") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBuildNodes(t, 3)
			c := n.client()
			table(c, 1000)
			result, leave := n.startStoppedBy((*buildNode).stopComparing, addUnique)
			after := interrupt(t, n, c)
			leave()
			require.NoError(t, wait(t, result))
			after()
			require.Equal(t, "synced", c.lastJob("state"))
			n.requireBuilt(c, "t")
		})
	}
}

// A node that takes a job over compares anew, at a timestamp of its own.
func TestOwnerOfSharedComparisonIsLost(t *testing.T) {
	randtest.SkipShort(t)
	n := newBuildNodes(t, 3)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStoppedBy((*buildNode).stopComparing, addUnique)
	var first uint64
	var parts int
	_, err := fmt.Sscan(c.one("SELECT MAX(snapshot_ts), COUNT(*) FROM mysql.fastddl_build_parts"), &first, &parts)
	require.NoError(t, err)
	owner := n.nodes[0]
	letIn := owner.shutOut()
	life := owner.forget()
	life.dead.Store(true) // or it builds on, and claims parts of the next owner
	n.nodes[1].leave()
	n.nodes[2].leave()
	c.awaitNoJob()
	life.notice()
	leave()
	letIn()
	require.NoError(t, wait(t, result))
	require.GreaterOrEqual(t, n.nodes[1].comparedAfter(first)+n.nodes[2].comparedAfter(first), parts, "all of them anew")
	n.requireBuilt(c, "t")
}
