package sql_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/ddl"
	"fastddl/ddl/job"
	"fastddl/ddl/status"
	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/sql"
)

const addUnique = "ALTER TABLE t ADD UNIQUE INDEX u (b)"

// A job whose node has gone is another's, wherever it was; the session that waits for it
// gets its result.
func TestJobsAreTakenOver(t *testing.T) {
	randtest.SkipShort(t)
	n := newNodes(t)
	c := n.client()
	for _, at := range steps {
		t.Run(at.String(), func(t *testing.T) {
			c := c.of(t)
			table(c, 100)
			n.joined(t)
			letIn := n.first.shutOut()
			arrived, leave := n.blockAt(at)
			defer close(leave)
			result := n.start(addUnique)
			reach(t, arrived)
			n.first.forget().notice()
			require.NoError(t, wait(t, result))
			c.check("t")
			require.Contains(t, c.one("SHOW CREATE TABLE t"), "`u`")
			require.Contains(t, c.one("SELECT CONVERT(record USING utf8mb4) FROM mysql.fastddl_ddl_record_history ORDER BY job_id DESC LIMIT 1"),
				`"owner":"second/`)
			letIn()
			c.run("ALTER TABLE t DROP INDEX u")
			n.leavesNothing(c, "t")
		})
	}
}

// A node that does not know that its job is another's changes nothing of it, wherever it
// has been stopped, and goes on as one of the cluster.
func TestLateOwnerTouchesNothing(t *testing.T) {
	randtest.SkipShort(t)
	n := newNodes(t)
	c := n.client()
	for _, at := range steps {
		t.Run(at.String(), func(t *testing.T) {
			c := c.of(t)
			table(c, 100)
			n.joined(t)
			arrived, leave := n.stopAt(at)
			defer leave()
			result := n.start(addUnique)
			reach(t, arrived)
			otherArrived, otherLeave := n.stopOther()
			defer otherLeave()
			late := n.first.forget()
			reach(t, otherArrived)
			before := n.state(c)
			leave()
			n.idle(t)
			require.Equal(t, before, n.state(c))
			late.notice()
			otherLeave()
			require.NoError(t, wait(t, result))
			c.check("t")
			require.Contains(t, c.one("SHOW CREATE TABLE t"), "`u`")
			c.run("ALTER TABLE t DROP INDEX u")
		})
	}
}

// stopping is a backfiller whose builds stop until they are let go, and report what they are
// permitted then.
type stopping struct {
	ddl.Backfiller
	mu              sync.Mutex
	entered, leave  chan struct{}
	permit, saved   error
	permittedBefore error
}

func (b *stopping) Backfill(ctx context.Context, t ddl.BackfillTask) (backfill.Result, error) {
	b.mu.Lock()
	entered, leave := b.entered, b.leave
	b.entered = nil
	b.mu.Unlock()
	if entered == nil { // only the first
		return b.Backfiller.Backfill(ctx, t)
	}
	b.permittedBefore = kv.CheckPermit(ctx)
	close(entered)
	<-leave
	b.permit = kv.CheckPermit(ctx)
	b.saved = t.SaveCheckpoint(context.WithoutCancel(ctx), []byte("late"))
	return backfill.Result{}, context.Cause(ctx)
}

// A build of a late owner is not permitted to import once the clock says that the node is
// no member any more, and does not overwrite the checkpoint of the next owner, which has
// fenced off what was sent before.
func TestLateOwnerDoesNotImport(t *testing.T) {
	b := &stopping{entered: make(chan struct{}), leave: make(chan struct{})}
	entered, goOn := b.entered, sync.OnceFunc(func() { close(b.leave) })
	n := newNodes(t, func(o *sql.Options) {
		withFaults(&faulty{})(o)
		b.Backfiller, o.Backfiller = o.Backfiller, b
	})
	c := n.client()
	table(c, 100)
	result := n.start(addUnique)
	defer goOn()
	reach(t, entered)
	require.Zero(t, n.fences.count(), "there is no node to be fenced off")
	arrived, leave := n.stopOther()
	defer leave()
	late := n.first.forget()
	reach(t, arrived)
	require.Equal(t, 1, n.fences.count(), "before its first action")
	late.dead.Store(true) // by the clock; no goroutine has woken up yet
	goOn()
	n.idle(t)
	require.NoError(t, b.permittedBefore)
	require.Error(t, b.permit)
	require.Error(t, b.saved)
	require.Equal(t, "NULL", c.one("SELECT checkpoint FROM mysql.fastddl_ddl_record"))
	late.notice()
	leave()
	require.NoError(t, wait(t, result))
	c.check("t")
}

// A node that is alone takes its own jobs back when it is a member again.
func TestNodeRejoinsAfterPartition(t *testing.T) {
	n := newNodes(t)
	require.NoError(t, n.other.Close())
	c := n.client()
	table(c, 100)
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	defer close(leave)
	result := n.start(addUnique)
	reach(t, arrived)
	n.first.forget().notice()
	require.NoError(t, wait(t, result))
	c.check("t")
	require.Contains(t, c.one("SELECT CONVERT(record USING utf8mb4) FROM mysql.fastddl_ddl_record_history"), `"epoch":1`)
	n.leavesNothingOf(c)
}

// leavesNothingOf is leavesNothing for a job that has succeeded.
func (n *nodes) leavesNothingOf(c *client) {
	c.run("ALTER TABLE t DROP INDEX u")
	n.leavesNothing(c, "t")
}

// What the last owner has shown of transactions that the job waits for goes when another one
// reports: it may wait for none.
func TestBlockersOfTheLastOwner(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	letIn := n.first.shutOut()
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	defer close(leave)
	result := n.start(addUnique)
	reach(t, arrived)
	c.run("INSERT INTO mysql.fastddl_ddl_blockers (job_id, number, user_name) SELECT job_id, 1, 'app' FROM mysql.fastddl_ddl_record")
	taken, goOn := n.stopOther()
	defer goOn()
	n.first.forget().notice()
	reach(t, taken)
	require.Eventually(t, func() bool { return len(c.run("SELECT * FROM mysql.fastddl_ddl_blockers")) == 0 }, hangTimeout, 10*time.Millisecond)
	goOn()
	require.NoError(t, wait(t, result))
	letIn()
}

// What a node that has died has asked of others does not stay, while what a living one asks does.
func TestRequestsOfDeadNodesAreForgotten(t *testing.T) {
	randtest.SkipShort(t)
	c := newNodes(t).client()
	c.run("INSERT INTO mysql.fastddl_ddl_requests VALUES ('dead', 1, '{}', NULL, NOW() - INTERVAL 20 MINUTE), ('alive', 1, '{}', '{}', NOW())")
	require.Eventually(t, func() bool {
		return c.one("SELECT GROUP_CONCAT(request_id) FROM mysql.fastddl_ddl_requests") == "alive"
	},
		hangTimeout, 10*time.Millisecond)
}

// takenOften has a job that is in the middle of its import taken over by the second node, as if it
// had changed hands forty times before, after a change of its record in the store. The first node,
// which would take it back, stays out until the end of c's test.
func (n *nodes) takenOften(c *client, change string) (result <-chan error, id int64) {
	c.t.Helper()
	table(c, 100)
	n.joined(c.t)
	c.t.Cleanup(n.first.shutOut())
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result = n.start(addUnique)
	reach(c.t, arrived)
	id = n.DDL().Unfinished()[0].ID
	c.run("UPDATE mysql.fastddl_ddl_record SET record = JSON_SET(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.epoch', 40" + change + ")")
	n.first.forget().notice()
	close(leave)
	return result, id
}

// A node that takes over a job that many nodes have had pauses, and shows that, before it goes
// on; but not before it undoes the job, nor before it stops it.
func TestTakeoverOfAMuchMovedJobPauses(t *testing.T) {
	randtest.SkipShort(t)
	n := newNodes(t)
	c := n.client()
	pauses := func(t *testing.T) {
		t.Helper()
		require.Eventually(t, func() bool {
			jobs := n.other.Unfinished()
			return len(jobs) == 1 && strings.Contains(jobs[0].WaitReason, "changed hands 41 times")
		}, hangTimeout, time.Millisecond)
		require.Zero(t, n.fences.count())
	}
	t.Run("cancelled", func(t *testing.T) {
		result, id := n.takenOften(c.of(t), "")
		pauses(t)
		threads := 3
		require.NoError(t, n.other.Alter(t.Context(), id, ddl.Alteration{Threads: &threads}))
		pauses(t) // still
		require.NoError(t, n.other.Cancel(t.Context(), id))
		require.Equal(t, 8214, errorCode(wait(t, result)))
		require.Equal(t, 1, n.fences.count(), "it is undone behind a fence")
	})
	n.fences.forget()
	t.Run("paused", func(t *testing.T) {
		result, id := n.takenOften(c.of(t), "")
		pauses(t)
		require.NoError(t, n.other.Pause(t.Context(), id))
		require.Eventually(t, func() bool { return n.other.Unfinished()[0].State == "paused" }, hangTimeout, time.Millisecond)
		require.Equal(t, 1, n.fences.count(), "nothing of the last owner comes late into a paused job")
		require.NoError(t, n.other.Resume(t.Context(), id))
		require.NoError(t, wait(t, result))
	})
	n.fences.forget()
	t.Run("its row is taken", func(t *testing.T) {
		result, id := n.takenOften(c.of(t), "")
		pauses(t)
		c.run("DELETE FROM mysql.tidb_ddl_job WHERE job_id = %d", id)
		require.Equal(t, 8214, errorCode(wait(t, result)))
	})
	t.Run("cancelled before", func(t *testing.T) {
		result, _ := n.takenOften(c.of(t), ", '$.request', 'cancel'")
		require.Equal(t, 8214, errorCode(wait(t, result)))
	})
	n.leavesNothing(c, "t")
}

// A job that is paused has no import under way, so there is nothing to pause for or to fence off.
func TestTakeoverOfAPausedJob(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	result, id := n.takenOften(c, fmt.Sprintf(", '$.request', 'pause', '$.state', %d", model.JobStatePaused))
	require.Eventually(t, func() bool { return len(n.other.Unfinished()) == 1 }, hangTimeout, time.Millisecond)
	require.NoError(t, n.other.Resume(t.Context(), id))
	require.NoError(t, wait(t, result))
	require.Zero(t, n.fences.count())
	c.check("t")
}

// A statement that comes while the node is no member is built by another one.
func TestStatementIsBuiltByAnotherNode(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	letIn := n.first.shutOut()
	n.first.forget().notice()
	require.NoError(t, wait(t, n.start(addUnique)))
	c.check("t")
	table(c, 3)
	c.run("UPDATE t SET b = 1")
	require.Equal(t, 1062, errorCode(wait(t, n.start(addUnique))), "an error comes over, too")
	letIn()
}

// What is asked of a job on another node than the one that runs it is done there, with the
// same errors.
func TestRequestsToOtherNodes(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	b, ctx := n.other, context.Background()
	holder := n.client() // what the job waits for, in an action that can be interrupted
	holder.run("BEGIN; SELECT * FROM t")
	result := n.start(addUnique)
	var id int64
	require.Eventually(t, func() bool {
		jobs, err := b.AllUnfinished(ctx)
		require.NoError(t, err)
		if len(jobs) == 1 && jobs[0].Step == "delete-only" {
			id = jobs[0].ID
			return true
		}
		return false
	}, hangTimeout, time.Millisecond)
	ours, err := b.Owns(ctx, id)
	require.NoError(t, err)
	require.True(t, ours)

	require.NoError(t, b.Pause(ctx, id))
	same := func(what string, ask func(d *ddl.DDL) error) {
		t.Helper()
		there, here := ask(b), ask(n.DDL())
		require.Error(t, there, what)
		require.EqualError(t, there, here.Error(), what)
		require.Equal(t, errorCode(here), errorCode(there), what)
	}
	same("paused already", func(d *ddl.DDL) error { return d.Pause(ctx, id) })
	threads := 3
	require.NoError(t, b.Alter(ctx, id, ddl.Alteration{Threads: &threads}))
	// The answer comes with the transaction; the node shows it a moment later.
	require.Eventually(t, func() bool { return n.DDL().Unfinished()[0].Settings.Threads == 3 }, hangTimeout, time.Millisecond)
	var jobs []status.JobInfo
	require.Eventually(t, func() bool {
		jobs, err = b.AllUnfinished(ctx)
		require.NoError(t, err)
		return jobs[0].State == "paused"
	}, hangTimeout, time.Millisecond)
	require.Equal(t, 3, jobs[0].Settings.Threads)
	require.Equal(t, "first", jobs[0].Node)
	require.NoError(t, b.Resume(ctx, id))
	same("not paused", func(d *ddl.DDL) error { return d.Resume(ctx, id) })
	require.NoError(t, b.Cancel(ctx, id))
	holder.run("COMMIT")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	same("has ended", func(d *ddl.DDL) error { return d.Cancel(ctx, id) })
	same("has ended", func(d *ddl.DDL) error { return d.Alter(ctx, id, ddl.Alteration{}) })
	require.Empty(t, c.run("SELECT * FROM mysql.fastddl_ddl_requests"))
	ours, err = b.Owns(ctx, id)
	require.NoError(t, err)
	require.False(t, ours)
	n.leavesNothing(c, "t")
}

// A request that no node answers is taken back with its job, or goes to the next owner.
func TestRequestOutlivesTheOwner(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	letIn := n.first.shutOut()
	arrived, leave := n.stopAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := n.start(addUnique)
	reach(t, arrived)
	jobs, err := n.other.AllUnfinished(t.Context())
	require.NoError(t, err)
	cancelled := make(chan error, 1)
	go func() { cancelled <- n.other.Cancel(context.Background(), jobs[0].ID) }()
	require.Eventually(t, func() bool { return len(c.run("SELECT * FROM mysql.fastddl_ddl_requests")) == 1 }, hangTimeout, time.Millisecond)
	first := make(chan string, 1)
	hook := func(_ context.Context, p ddl.HookPoint) error {
		select {
		case first <- p.Action:
		default:
		}
		return nil
	}
	n.otherHook.Store(&hook)
	n.first.forget().notice()
	leave()
	require.NoError(t, wait(t, cancelled))
	require.Equal(t, 8214, errorCode(wait(t, result)))
	require.NotEqual(t, "await-older", <-first, "the request comes before what is left of the job")
	require.Empty(t, c.run("SELECT * FROM mysql.fastddl_ddl_requests"))
	letIn()
	n.leavesNothing(c, "t")
}

// A request is granted once, however often the owner looks for requests meanwhile.
func TestRequestsAreGrantedOnce(t *testing.T) {
	randtest.SkipShort(t)
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	holder := n.client() // what the job waits for
	holder.run("BEGIN; SELECT * FROM t")
	result := n.start(addUnique)
	id := n.deleteOnly(t)
	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			n.first.Notify(ctx)
		}
	})
	for range 20 {
		require.NoError(t, n.other.Pause(ctx, id))
		require.NoError(t, n.other.Resume(ctx, id))
	}
	stop()
	looking.Wait()
	require.NoError(t, n.other.Cancel(t.Context(), id))
	holder.run("COMMIT")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	require.Empty(t, c.run("SELECT * FROM mysql.fastddl_ddl_requests"))
}

// A request to a node that does not know yet that it has lost the job goes to the one that
// has it.
func TestRequestToALateOwner(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	ctx := context.Background()
	holder := n.client() // what the job waits for, in an action that can be interrupted
	holder.run("BEGIN; SELECT * FROM t")
	result := n.start(addUnique)
	id := n.deleteOnly(t)
	arrived, leave := n.stopOther()
	defer leave()
	late := n.first.forget()
	reach(t, arrived)
	threads := 3
	altered := make(chan error, 1)
	go func() { altered <- n.DDL().Alter(ctx, id, ddl.Alteration{Threads: &threads}) }()
	require.Eventually(t, func() bool { return len(c.run("SELECT * FROM mysql.fastddl_ddl_requests")) == 1 }, hangTimeout, time.Millisecond)
	leave()
	require.NoError(t, wait(t, altered))
	require.Eventually(t, func() bool { return n.other.Unfinished()[0].Settings.Threads == 3 }, hangTimeout, time.Millisecond)
	late.notice()
	require.NoError(t, n.other.Cancel(ctx, id))
	holder.run("COMMIT")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	n.leavesNothing(c, "t")
}

// kill kills the statement of a session, and waits until the other node is asked to cancel
// its job.
func (n *nodes) kill(c, victim *client) {
	n.t.Helper()
	n.Domain().InfoSyncer().GetSessionManager().Kill(victim.GetSessionVars().ConnectionID, true, false, false)
	require.Eventually(n.t, func() bool { return len(c.run("SELECT * FROM mysql.fastddl_ddl_requests")) == 1 }, hangTimeout, time.Millisecond,
		"the other node is asked to cancel")
}

// A statement whose job has gone elsewhere can be killed.
func TestKillOfAStatementWhoseJobMoved(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	letIn := n.first.shutOut()
	defer letIn()
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	defer close(leave)
	victim := n.client()
	result := make(chan error, 1)
	go func() {
		_, err := victim.try(addUnique)
		result <- err
	}()
	reach(t, arrived)
	otherArrived, otherLeave := n.stopOther()
	n.first.forget().notice()
	reach(t, otherArrived)
	n.idle(t)
	n.kill(c, victim)
	asked(t, has(result))
	otherLeave()
	require.Equal(t, 1317, errorCode(wait(t, result)))
	c.awaitNoJob()
	n.leavesNothing(c, "t")
}

// A statement does not wait for a job that was deleted by hand, on any node.
func TestStatementEndsWhenItsJobIsDeleted(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	letIn := n.first.shutOut()
	defer letIn()
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	defer close(leave)
	result := n.start(addUnique)
	reach(t, arrived)
	otherArrived, otherLeave := n.stopOther()
	n.first.forget().notice()
	reach(t, otherArrived)
	n.idle(t)
	c.run("DELETE FROM mysql.fastddl_ddl_record")
	c.run("DELETE FROM mysql.tidb_ddl_job")
	require.ErrorContains(t, wait(t, result), "deleted")
	otherLeave()
}

// A job that is a node's own without anything there that runs it goes on.
func TestJobWithoutARunnerGoesOn(t *testing.T) {
	randtest.SkipShort(t)
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := n.start(addUnique)
	reach(t, arrived)
	// As if the node had taken the job over once more, and had not heard that it has.
	c.run(`UPDATE mysql.fastddl_ddl_record SET record = JSON_SET(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.epoch', 1,
		'$.revision', JSON_EXTRACT(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.revision') + 1)`)
	close(leave)
	require.NoError(t, wait(t, result))
	c.awaitNoJob()
	c.check("t")
}

// setProtocol makes the only job one of another version.
func (c *client) setProtocol(protocol int) {
	c.t.Helper()
	c.run(fmt.Sprintf(`UPDATE mysql.fastddl_ddl_record SET record = JSON_SET(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.protocol', %d)`, protocol))
}

// A job of a later version waits for a node that knows what its record says: this one would
// write it without that.
func TestJobsOfLaterVersions(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	n.joined(t)
	letIn := n.first.shutOut()
	defer letIn()
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	defer close(leave)
	result := n.start(addUnique)
	reach(t, arrived)
	c.setProtocol(job.Protocol + 1)
	n.first.forget().notice()
	const message = "an index build was begun by a later version and waits for one"
	require.Eventually(t, func() bool { return n.otherWarned.FilterMessage(message).Len() > 0 }, hangTimeout, time.Millisecond)
	require.Contains(t, c.one("SELECT CONVERT(record USING utf8mb4) FROM mysql.fastddl_ddl_record"), `"owner": "first/`)
	jobs, err := n.other.AllUnfinished(t.Context())
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Contains(t, jobs[0].WaitReason, "a later version")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than a request waits for its answer
	defer cancel()
	require.ErrorContains(t, n.other.Cancel(ctx, jobs[0].ID), "a later version", "there is no node to ask")
	c.setProtocol(job.Protocol)
	require.NoError(t, wait(t, result))
	require.Equal(t, 1, n.otherWarned.FilterMessage(message).Len(), "it says so each second")
	c.awaitNoJob()
	c.check("t")
}

// A request that the job's node does not know in full, such as one of a later version, is refused and not granted in part; others are
// answered beside it.
func TestRequestsThatAreNotKnownAreRefused(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := n.start(addUnique)
	reach(t, arrived)
	const settings = "SELECT CONVERT(settings USING utf8mb4) FROM mysql.fastddl_ddl_record"
	before := c.one(settings)
	for name, request := range map[string]string{"field": `{"alter": {"threads": 2, "weather": "fair"}}`, "request": `{"request": "rewind"}`, "text": "garbage"} {
		c.run(`INSERT INTO mysql.fastddl_ddl_requests (request_id, job_id, request, created) SELECT '%s', job_id, '%s', NOW(6) FROM mysql.fastddl_ddl_record`,
			name, request)
	}
	require.Eventually(t, func() bool {
		return c.one("SELECT COUNT(answer) FROM mysql.fastddl_ddl_requests") == "3"
	}, hangTimeout, time.Millisecond)
	for _, answer := range c.run("SELECT CONVERT(answer USING utf8mb4) FROM mysql.fastddl_ddl_requests") {
		require.Contains(t, answer, "does not know the request")
	}
	require.Equal(t, before, c.one(settings))
	close(leave)
	require.NoError(t, wait(t, result))
	c.check("t")
}

// A KILL that comes too late for the job, which another node has, ends the statement: its index is there, and the job does
// the rest.
func TestKillAfterPublicationByAnotherNode(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	letIn := n.first.shutOut()
	defer letIn()
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	defer close(leave)
	victim := n.client()
	result := make(chan error, 1)
	go func() {
		_, err := victim.Execute(t.Context(), "ALTER TABLE t ADD UNIQUE INDEX u (b), DROP COLUMN c")
		result <- err
	}()
	reach(t, arrived)
	dropping, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hook := func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "before" && p.Action == "change-schema" && p.Step == "drop-delete-only" {
			once.Do(func() { close(dropping); <-goOn })
		}
		return nil
	}
	n.otherHook.Store(&hook)
	n.first.forget().notice()
	reach(t, dropping)
	n.Domain().InfoSyncer().GetSessionManager().Kill(victim.GetSessionVars().ConnectionID, true, false, false)
	require.NoError(t, wait(t, result))
	require.Contains(t, victim.one("SHOW WARNINGS"), "does the rest")
	close(goOn)
	c.awaitNoJob()
	c.check("t")
}

// On a cluster garbage collection is held at S until the index is public, by a hold of the
// owner's own, which is left to expire then: replicas may be late.
func TestHoldStaysAtS(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	letIn := n.first.shutOut()
	defer letIn()
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "change-schema", Step: "public"})
	defer close(leave)
	result := n.start(addUnique)
	reach(t, arrived)
	s := n.DDL().Unfinished()[0].Snapshot
	held := func(suffix string) bool {
		holds, err := n.store.Builds().GCHolds(t.Context())
		require.NoError(t, err)
		for name, ts := range holds {
			if strings.HasPrefix(name, "fastddl-job-") && strings.HasSuffix(name, suffix) && ts == s {
				return true
			}
		}
		return false
	}
	require.True(t, held(""))
	otherArrived, otherLeave := n.stopOther()
	n.first.forget().notice()
	reach(t, otherArrived)
	require.True(t, held("-1"))
	otherLeave()
	require.NoError(t, wait(t, result))
	require.True(t, held("-1"))
	require.False(t, held("job-"+c.lastJob("job_id")), "that of the owner before")
}

// It is held at an S that the job has given up, too, while another one is built: replicas
// may be late with what was imported at the first.
func TestHoldStaysAtTheFirstS(t *testing.T) {
	n := newNodes(t)
	c, w := n.client(), n.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1,1),(2,2),(3,1)")
	var first uint64
	n.before("backfill", "", func() {
		first = n.DDL().Unfinished()[0].Snapshot
		w.run("DELETE FROM t WHERE a = 3")
	})
	c.run(addUnique)
	holds, err := n.store.Builds().GCHolds(t.Context())
	require.NoError(t, err)
	second := c.lastJob("snapshot_ts")
	require.NotEqual(t, fmt.Sprint(first), second, "the duplicate was there at S")
	id := c.lastJob("job_id")
	require.Equal(t, first, holds[fmt.Sprintf("fastddl-job-%s-at-%d", id, first)], "%v", holds)
	require.Equal(t, second, fmt.Sprint(holds["fastddl-job-"+id]))
	c.check("t")
}

// A repair of a late owner changes nothing: it locks the job's record first.
func TestLateOwnerDoesNotRepair(t *testing.T) {
	f := &faulty{}
	n := newNodes(t, withFaults(f))
	c := n.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1,1),(2,2)")
	arrived, leave := n.stopOther()
	defer leave()
	var late *fakeMember
	var once sync.Once
	f.compare = func() error { // of the first node, and then it finds what is to be repaired
		once.Do(func() {
			late = n.first.forget()
			<-arrived
		})
		return nil
	}
	n.holes(func() {}, func() {}, 1)
	result := n.start(addUnique)
	reach(t, arrived)
	n.idle(t)
	require.Len(t, n.entries(c, "t"), 1, "the entry of the other row only")
	late.notice()
	leave()
	require.NoError(t, wait(t, result))
	n.setHook(nil)
	require.Len(t, n.entries(c, "t"), 2, "the next owner repairs it")
	c.check("t")
}

// Of several nodes that see a job without an owner one takes it over.
func TestOneNodeTakesOverAJob(t *testing.T) {
	randtest.SkipShort(t)
	n := newNodes(t)
	third, err := ddl.New(ddl.Options{
		Storage: n.store.Storage(), Domain: n.Domain(), Builds: n.fences, Globals: n.globals, TempDir: n.dir + "/tmp3", Cluster: n.of.node("third"),
	})
	require.NoError(t, err)
	require.NoError(t, third.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, third.Close()) })
	c := n.client()
	for i := range 10 {
		table(c, 20)
		n.joined(t)
		letIn := n.first.shutOut()
		arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
		result := n.start(addUnique)
		reach(t, arrived)
		n.first.forget().notice()
		require.NoError(t, wait(t, result))
		close(leave)
		letIn()
		require.Contains(t, c.one("SELECT CONVERT(record USING utf8mb4) FROM mysql.fastddl_ddl_record_history ORDER BY job_id DESC LIMIT 1"), `"epoch":1`)
		require.Equal(t, i+1, n.fences.count(), "each that takes it over fences")
		c.check("t")
	}
}
