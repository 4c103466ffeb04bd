package sql_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/sql"
)

// wallClock is a clock that tests set. It runs on by itself.
type wallClock struct{ ahead atomic.Int64 }

func (c *wallClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *wallClock) use(o *sql.Options) { o.Now = c.now }

// night sets the clock to a time within the next window, and noon to one outside.
func (c *wallClock) night() { c.advance(0) }

func (c *wallClock) noon() { c.advance(12 * time.Hour) }

// advance sets the clock to what it was in the beginning, after some days and a part of one. The store's clock stays there.
func (c *wallClock) advance(part time.Duration) {
	const day = 24 * time.Hour
	ahead := time.Duration(c.ahead.Load())
	next := ahead/day*day + part
	if next <= ahead {
		next += day
	}
	c.ahead.Store(int64(next))
}

// nights is the window of tests: the test begins within, hours from both ends.
var nights = func() string {
	hour := time.Now().UTC().Hour()
	return fmt.Sprintf("%02d:00-%02d:00 UTC", (hour+22)%24, (hour+7)%24)
}()

var awaitingWindow = "its window: " + nights + " opens at "

const awaitingConsent = "publication: ADMIN ALTER DDL JOBS %s fastddl_ddl_publish = 'now'"

// awaitReason waits until the only job that has not ended waits for something, and returns its ID.
func (e *env) awaitReason(t *testing.T, reason string) (id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		if len(jobs) != 1 {
			return false
		}
		id = fmt.Sprint(jobs[0].ID)
		want := reason
		if strings.Contains(want, "%s") {
			want = fmt.Sprintf(want, id)
		}
		return strings.HasPrefix(jobs[0].WaitReason, want)
	}, hangTimeout, 5*time.Millisecond, reason)
	return id
}

// holds are the holds of jobs that have not ended.
func (e *env) holds() (n int) {
	e.t.Helper()
	all, err := e.store.Builds().GCHolds(context.Background())
	require.NoError(e.t, err)
	for name := range all {
		if strings.HasPrefix(name, "fastddl") {
			n++
		}
	}
	return n
}

// TestWindow: a job works in its window only. Outside it does not even publish a schema version, and one that runs when the window closes
// is parked and goes on when it opens again, also after a restart.
func TestWindow(t *testing.T) {
	clock := &wallClock{}
	clock.noon()
	dir := t.TempDir()
	e := open(t, dir, clock.use)
	c := e.client()
	table(c, 100)
	c.run("SET GLOBAL fastddl_ddl_window = '" + nights + "'") // the default of new sessions
	version := c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job")
	arrived, leave := e.blockAt(ddl.HookPoint{When: "after", Action: "take-snapshot"})
	result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	id := e.awaitReason(t, awaitingWindow)
	require.Equal(t, "0", version)
	require.Contains(t, c.one("ADMIN SHOW DDL JOBS 1 WHERE job_id = "+id), "waits for "+awaitingWindow)
	require.Equal(t, "", string(e.DDL().Unfinished()[0].Step), "a schema version was published")
	require.Zero(t, e.holds())

	clock.night()
	reach(t, arrived)
	clock.noon()
	close(leave)
	e.awaitReason(t, awaitingWindow)
	require.Equal(t, "snapshot", e.DDL().Unfinished()[0].Step)
	require.Equal(t, 1, e.holds())
	c.run("INSERT INTO t VALUES (1000, 7000, '')")
	e.close()
	require.ErrorIs(t, wait(t, result), ddl.ErrClosed)

	e = open(t, dir, clock.use)
	defer e.close()
	c = e.client()
	e.awaitReason(t, awaitingWindow)
	require.Equal(t, nights, e.DDL().Unfinished()[0].Settings.Window)
	// A client who does not want to wait changes that.
	c.fails(1231, "ADMIN ALTER DDL JOBS "+id+" fastddl_ddl_window = 'at night'")
	c.run("ADMIN ALTER DDL JOBS " + id + " THREAD = 2, fastddl_ddl_window = ''")
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	c.check("t")
	c.run("SET GLOBAL fastddl_ddl_window = ''")
}

// TestCancelOutsideTheWindow: outside its window a job is cancelled and undone.
func TestCancelOutsideTheWindow(t *testing.T) {
	clock := &wallClock{}
	e := newEnv(t, clock.use)
	c := e.client()
	table(c, 100)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	s := e.client()
	s.run("SET fastddl_ddl_window = '" + nights + "'")
	result := make(chan error, 1)
	go func() {
		_, err := s.try("ALTER TABLE t ADD UNIQUE INDEX u (b)")
		result <- err
	}()
	reach(t, arrived)
	clock.noon()
	close(leave)
	id := e.awaitReason(t, awaitingWindow)
	require.Equal(t, id+" successful", c.one("ADMIN CANCEL DDL JOBS "+id))
	require.Equal(t, 8214, errorCode(wait(t, result)))
	e.leavesNothing(c, "t")
}

// TestMaxHold: a job that is parked for too long gives garbage collection free, and begins anew. It says so.
func TestMaxHold(t *testing.T) {
	for _, parked := range []string{"window", "pause"} {
		t.Run(parked, func(t *testing.T) {
			clock := &wallClock{}
			var given atomic.Int64
			e := newEnv(t, clock.use)
			e.bus.Subscribe(func(ev event.Event) {
				if _, ok := ev.(event.SnapshotGivenUp); ok {
					given.Add(1)
				}
			})
			c := e.client()
			table(c, 100)
			c.run("SET GLOBAL fastddl_ddl_max_hold = '20h'")
			if parked == "window" {
				c.run("SET GLOBAL fastddl_ddl_window = '" + nights + "'")
			}
			arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
			result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
			reach(t, arrived)
			first := e.DDL().Unfinished()[0]
			id := fmt.Sprint(first.ID)
			reason := "paused"
			if parked == "window" {
				clock.noon()
				close(leave)
				reason = awaitingWindow
			} else {
				paused := e.start("ADMIN PAUSE DDL JOBS " + id)
				asked(t, has(paused))
				close(leave)
				require.NoError(t, wait(t, paused))
			}
			e.awaitReason(t, reason)
			require.Equal(t, first.Snapshot, e.DDL().Unfinished()[0].Snapshot)
			require.Equal(t, 1, e.holds())
			clock.advance(20*time.Hour + 30*time.Minute)
			require.Eventually(t, func() bool { return e.holds() == 0 }, hangTimeout, 5*time.Millisecond, "garbage collection is held for too long")
			require.Eventually(t, func() bool {
				return strings.Contains(e.DDL().Unfinished()[0].WaitReason, "begin anew")
			}, hangTimeout, 5*time.Millisecond)
			require.EqualValues(t, 1, given.Load())
			c.run("DELETE FROM t WHERE a = 3")
			if parked == "window" {
				clock.night()
			} else {
				c.run("ADMIN RESUME DDL JOBS " + id)
			}
			require.NoError(t, wait(t, result))
			require.Equal(t, "1", c.lastJob("restarts"))
			require.NotEqual(t, fmt.Sprint(first.Snapshot), c.lastJob("snapshot_ts"))
			c.check("t")
		})
	}
}

// TestWorkThatDoesNotFitItsWindow: it does not begin anew for ever.
func TestWorkThatDoesNotFitItsWindow(t *testing.T) {
	clock := &wallClock{}
	e := newEnv(t, clock.use)
	c := e.client()
	table(c, 100)
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "before" && p.Action == "backfill" {
			clock.noon()
		}
		return nil
	})
	s := e.client()
	s.run("SET fastddl_ddl_window = '" + nights + "', fastddl_ddl_max_hold = '1h'")
	result := make(chan error, 1)
	go func() {
		_, err := s.try("ALTER TABLE t ADD INDEX i (b)")
		result <- err
	}()
	for restarts := int64(1); restarts < 3; restarts++ {
		require.Eventually(t, func() bool {
			jobs := e.DDL().Unfinished()
			return len(jobs) == 1 && jobs[0].Restarts == restarts
		}, hangTimeout, 5*time.Millisecond)
		require.Eventually(t, func() bool {
			return strings.Contains(e.DDL().Unfinished()[0].WaitReason, fmt.Sprintf("attempt %d of 3", restarts+1))
		}, hangTimeout, 5*time.Millisecond)
		clock.night()
	}
	require.ErrorContains(t, wait(t, result), "does not fit into its window")
	e.leavesNothing(c, "t")
}

// TestManualPublication: indexes are built, and no statement reads them before a client says so. Until then garbage collection is not held.
func TestManualPublication(t *testing.T) {
	for _, statement := range []string{"ADD UNIQUE INDEX u (b)", "ADD INDEX u (b)", "ADD COLUMN d INT DEFAULT 7, ADD UNIQUE INDEX u (b), DROP COLUMN c"} {
		t.Run(statement, func(t *testing.T) {
			dir := t.TempDir()
			e := open(t, dir)
			c := e.client()
			table(c, 100)
			c.run("SET fastddl_ddl_publish = 'manual'")
			c.run("ALTER TABLE t " + statement)
			warning := c.one("SHOW WARNINGS")
			id := c.one("SELECT job_id FROM mysql.fastddl_ddl_record")
			require.Contains(t, warning, "ADMIN ALTER DDL JOBS "+id+" fastddl_ddl_publish = 'now'")
			before := c.one("SHOW CREATE TABLE t")
			require.NotContains(t, before, "`u`")
			require.Contains(t, before, "`c`")
			e.awaitReason(t, awaitingConsent)
			require.Equal(t, "ready", e.DDL().Unfinished()[0].Step)
			require.Eventually(t, func() bool { return e.holds() == 0 }, hangTimeout, 5*time.Millisecond, "garbage collection is held")
			c.run("INSERT INTO t (a, b) VALUES (1000, 7000)")
			c.run("DELETE FROM t WHERE a < 10")
			c.run("UPDATE t SET b = -b WHERE a < 20")
			if strings.Contains(statement, "UNIQUE") {
				c.fails(1062, "INSERT INTO t (a, b) VALUES (1001, 7000)")
			}
			e.close()

			e = open(t, dir)
			defer e.close()
			c = e.client()
			e.awaitReason(t, awaitingConsent)
			require.Contains(t, c.one("ADMIN RESUME DDL JOBS "+id), "error", "RESUME does not publish")
			require.Equal(t, id+" successful", c.one("ADMIN PAUSE DDL JOBS "+id))
			require.Equal(t, id+" successful", c.one("ADMIN RESUME DDL JOBS "+id))
			e.awaitReason(t, awaitingConsent)
			c.run("INSERT INTO t (a, b) VALUES (1002, 7002)")
			c.fails(1231, "ADMIN ALTER DDL JOBS "+id+" fastddl_ddl_publish = 'soon'")
			e.awaitReason(t, awaitingConsent)
			c.run("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'now'")
			c.awaitNoJob()
			require.Equal(t, "synced", c.lastJob("state"))
			c.check("t")
			require.Equal(t, "92", c.one("SELECT COUNT(*) FROM t USE INDEX (u) WHERE b > -1000000"))
			c.fails(1105, "ADMIN ALTER DDL JOBS "+id+" fastddl_ddl_publish = 'now'")
		})
	}
}

// TestCancelBeforePublication: what waits to be public is cancelled as anything else.
func TestCancelBeforePublication(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	c.run("SET fastddl_ddl_publish = 'manual'")
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	id := e.awaitReason(t, awaitingConsent)
	require.Equal(t, id+" successful", c.one("ADMIN CANCEL DDL JOBS "+id))
	c.awaitNoJob()
	e.leavesNothing(c, "t")

	// A plain tidb-server takes the row away when it resumes the job, which it does not know.
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	e.awaitReason(t, awaitingConsent)
	c.run("DELETE FROM mysql.tidb_ddl_job")
	c.awaitNoJob()
	require.Equal(t, "rollback done", c.lastJob("state"))
	e.leavesNothing(c, "t")
}

// TestComparedAgainBeforePublication: a unique index is compared with the rows once more when it becomes public.
func TestComparedAgainBeforePublication(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	c.run("SET fastddl_ddl_publish = 'manual'")
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	id := e.awaitReason(t, awaitingConsent)
	compared := e.DDL().Unfinished()[0].Compared
	require.Positive(t, compared)

	info := e.meta("t") // an entry is lost, as by an unknown defect
	prefix := tablecodec.EncodeTableIndexPrefix(info.ID, info.Indices[len(info.Indices)-1].ID)
	var key kv.Key
	e.eachPair(prefix, func(rest, _ []byte) { key = append(prefix.Clone(), rest...) })
	txn, err := e.store.Storage().Begin()
	require.NoError(t, err)
	require.NoError(t, txn.Delete(key))
	require.NoError(t, txn.Commit(context.Background()))

	c.run("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'now'")
	c.awaitNoJob()
	require.Equal(t, "1", c.lastJob("repaired_keys"), "published without another comparison")
	c.check("t")
}

// TestPublicationInTheWindow: what a client permits is done when the window opens.
func TestPublicationInTheWindow(t *testing.T) {
	clock := &wallClock{}
	e := newEnv(t, clock.use)
	c := e.client()
	table(c, 100)
	c.run("SET fastddl_ddl_publish = 'manual', fastddl_ddl_window = '" + nights + "'")
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	id := e.awaitReason(t, awaitingConsent)
	clock.noon()
	c.run("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'now'")
	require.Contains(t, c.one("SHOW WARNINGS"), "when the window of job "+id+" opens, at ")
	e.awaitReason(t, awaitingWindow)
	require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`u`")
	clock.night()
	c.awaitNoJob()
	c.check("t")
}

// TestPermissionIsReadWhereItIsWritten: indexes do not become public if the permission was taken back in the store, though the job has not
// seen that yet.
func TestPermissionIsReadWhereItIsWritten(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	e.before("change-schema", "public", func() {
		c.run(`UPDATE mysql.fastddl_ddl_record SET settings = JSON_SET(CAST(CONVERT(settings USING utf8mb4) AS JSON), '$.publish', 'manual')`)
	})
	result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	id := e.awaitReason(t, awaitingConsent)
	require.NoError(t, wait(t, result))
	require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`u`")
	c.run("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'auto'")
	c.awaitNoJob()
	c.check("t")
}

// TestUnreadableSettingsPublishNothing: it is not known whether they permit it.
func TestUnreadableSettingsPublishNothing(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	e.before("change-schema", "public", func() { c.run(`UPDATE mysql.fastddl_ddl_record SET settings = '{'`) })
	result := e.start("ALTER TABLE t ADD INDEX u (b)")
	id := e.awaitReason(t, awaitingConsent)
	require.NoError(t, wait(t, result))
	c.run("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'now'")
	c.awaitNoJob()
	c.check("t")
}

// TestScheduleOfAnEarlierVersionsJob: a job that an earlier version has queued is kept from it as soon as it has a window or waits to be
// published.
func TestScheduleOfAnEarlierVersionsJob(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 100)
	e.dieAt(t, "ALTER TABLE t ADD UNIQUE INDEX u (b)", ddl.HookPoint{When: "before", Action: "backfill"})
	c.setProtocol(job.ScheduleProtocol - 1)
	e.close()

	e = open(t, dir)
	defer e.close()
	var once atomic.Bool
	arrived, leave := make(chan struct{}), make(chan struct{})
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.Action == "change-schema" && once.CompareAndSwap(false, true) {
			close(arrived)
			<-leave
		}
		return nil
	})
	c = e.client()
	protocol := func() string {
		return c.one("SELECT JSON_EXTRACT(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.protocol') FROM mysql.fastddl_ddl_record")
	}
	reach(t, arrived)
	require.Equal(t, fmt.Sprint(job.ScheduleProtocol-1), protocol())
	id := c.one("SELECT job_id FROM mysql.fastddl_ddl_record")
	altered := e.start("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'manual'")
	asked(t, has(altered))
	close(leave)
	require.NoError(t, wait(t, altered))
	e.awaitReason(t, awaitingConsent)
	require.Equal(t, fmt.Sprint(job.ScheduleProtocol), protocol())
	c.run("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'now'")
	c.awaitNoJob()
	c.check("t")
}

// TestScheduleOptions: values are checked before anything changes, and jobs of others have none of this.
func TestScheduleOptions(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	for variable, value := range map[string]string{
		"fastddl_ddl_window": "22-06", "fastddl_ddl_publish": "now", "fastddl_ddl_max_hold": "long",
	} {
		c.fails(1231, "SET %s = '%s'", variable, value)
		c.fails(1231, "SET GLOBAL %s = '%s'", variable, value)
	}
	c.run("SET fastddl_ddl_window = '9:00-17:30'")
	require.Equal(t, "09:00-17:30 UTC", c.one("SELECT @@fastddl_ddl_window"))
	require.Equal(t, "", c.one("SELECT @@global.fastddl_ddl_window"))
	c.run("SET fastddl_ddl_window = '', fastddl_ddl_publish = 'MANUAL', fastddl_ddl_max_hold = '90m'")
	require.Equal(t, "manual 1h30m0s", c.one("SELECT @@fastddl_ddl_publish, @@fastddl_ddl_max_hold"))

	c.run("ALTER TABLE t ADD INDEX i (b)")
	id := c.one("SELECT job_id FROM mysql.fastddl_ddl_record")
	settings := e.DDL().Unfinished()[0].Settings
	for _, options := range []string{
		"fastddl_ddl_publish = 'now', fastddl_ddl_window = '22'", "fastddl_ddl_publish = 'now', THREAD = 0", "fastddl_ddl_publish = 'now', nope = 1",
		"fastddl_ddl_publish = 1.5", "fastddl_ddl_max_hold = '9000h'", "fastddl_ddl_max_hold = '0s'", "fastddl_ddl_publish = 'now', fastddl_ddl_target_latency = '20ms'",
	} {
		_, err := c.try("ADMIN ALTER DDL JOBS " + id + " " + options)
		require.Error(t, err, options)
		require.Equal(t, settings, e.DDL().Unfinished()[0].Settings, options)
	}
	c.fails(1231, "ADMIN ALTER DDL JOBS %s fastddl_ddl_window = -5", id)
	require.Contains(t, c.fails(1105, "ADMIN ALTER DDL JOBS 1 fastddl_ddl_publish = 'now'"), "not a running index build of fastddl")
	c.run("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'auto', THREAD = 3")
	c.awaitNoJob()

	c.run("CREATE USER reader")
	reader := e.clientOf("reader")
	reader.fails(8121, "ADMIN ALTER DDL JOBS 1 fastddl_ddl_publish = 'now'")
}

// TestManualPublicationOnACluster: a node that releases garbage collection has the store refuse late imports first, and another node that takes
// the job over does not publish it by itself.
func TestManualPublicationOnACluster(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	n.fences.forget()
	c.run("SET fastddl_ddl_publish = 'manual'")
	c.run(addUnique)
	id := n.awaitReason(t, awaitingConsent)
	n.fences.mu.Lock()
	fenced := len(n.fences.ranges)
	n.fences.mu.Unlock()
	require.Positive(t, fenced, "late imports are not refused")
	require.Eventually(t, func() bool {
		holds, err := n.store.Builds().GCHolds(context.Background())
		require.NoError(t, err)
		for name := range holds {
			if strings.HasPrefix(name, "fastddl") && !strings.Contains(name, "-at-") {
				return false
			}
		}
		return true
	}, hangTimeout, 5*time.Millisecond, "garbage collection is held")
	n.joined(t)
	letIn := n.first.shutOut()
	defer letIn()
	n.first.forget().notice() // the other node takes it over
	require.Eventually(t, func() bool {
		return len(n.other.Unfinished()) == 1 && strings.HasPrefix(n.other.Unfinished()[0].WaitReason, "publication: ")
	}, hangTimeout, 5*time.Millisecond)
	c.run("INSERT INTO t VALUES (1000, 7000, '')")
	require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`u`")
	c.run("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'now'")
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	c.check("t")
}
