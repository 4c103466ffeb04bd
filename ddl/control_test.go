package ddl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/table"
)

// promptly is how long a request may take until it has its effect: a second, and
// what the machine takes that runs the test.
const promptly = 3 * time.Second

// stuckStore is a store that gets stuck, as long as stuck says so, in what ends
// only with its context.
type stuckStore struct {
	kv.Store
	// stuckScan and stuckRead say where a scan of rows and an iterator get stuck;
	// nil is nowhere.
	stuckScan func() error
	stuckRead func(r kv.KeyRange) bool
}

func (s *stuckStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	if s.stuckScan == nil {
		return s.Store.ScanColumns(ctx, req, fn)
	}
	if err := s.stuckScan(); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *stuckStore) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx, ts)
	return &stuckSnapshot{snap, ctx, s}, err
}

type stuckSnapshot struct {
	kv.Snapshot
	ctx   context.Context
	store *stuckStore
}

func (s *stuckSnapshot) Iter(r kv.KeyRange) (kv.Iterator, error) {
	if s.store.stuckRead != nil && s.store.stuckRead(r) {
		<-s.ctx.Done()
		return nil, s.ctx.Err()
	}
	return s.Snapshot.Iter(r)
}

// controlEnv is a keyEnv on a store that can get stuck.
type controlEnv struct {
	*keyEnv
	stuck     *stuckStore
	resources *ingest.Resources
}

func newControlEnv(t *testing.T) *controlEnv {
	base := newKeyEnv(t)
	e := &controlEnv{keyEnv: base, stuck: &stuckStore{Store: base.store}}
	e.must("create table other (id bigint primary key, k int)")
	e.store = e.stuck
	e.env.restart(func(o *Options) {
		e.resources = ingest.NewResources(o.Globals, 2)
		o.Backfiller = NewBackfiller(backfill.Options{
			Store: e.store, Globals: o.Globals, Bus: o.Bus, Resources: e.resources, MaxWorkers: 2,
		})
		o.Hook = func(_ context.Context, p HookPoint) error {
			if fn := e.at[p.String()]; fn != nil {
				delete(e.at, p.String())
				fn()
			}
			return nil
		}
	})
	e.set(config.Governor, "OFF") // what the machine does besides is not shown
	return e
}

func (e *controlEnv) set(name, value string) {
	_, _, err := e.globals.Set(name, value)
	require.NoError(e.t, err)
}

// job returns the job of a statement, zero if there is none.
func (e *controlEnv) job(statement string) JobInfo {
	e.t.Helper()
	for _, j := range e.jobs() {
		if j.Query == statement {
			return j
		}
	}
	return JobInfo{}
}

// eventually waits until the job of a statement is as it should be, but not long.
func (e *controlEnv) eventually(statement, what string, cond func(JobInfo) bool) JobInfo {
	e.t.Helper()
	start, j := time.Now(), JobInfo{}
	for {
		if j = e.job(statement); cond(j) {
			return j
		}
		require.Less(e.t, time.Since(start), promptly, "%s: %+v", what, j)
		time.Sleep(time.Millisecond)
	}
}

// situation is a job that does or waits for something for as long as nobody asks
// something else of it.
type situation struct {
	name, statement string
	// begin brings it about before the statement; what it returns undoes it.
	begin func(e *controlEnv) (undo func())
	// stage and wait are what is shown.
	stage, wait string
	// state is what is shown besides; empty is "running".
	state string
	// builds says that the job has its share of the resources.
	builds bool
}

const (
	addUnique = "alter table p add unique index u (a, b), add index c (c)"
	addKey    = "alter table p add primary key (a)"
)

func situations() []situation {
	stuckScan := func(err error) func(e *controlEnv) func() {
		return func(e *controlEnv) func() {
			e.stuck.stuckScan = func() error { return err }
			return func() {}
		}
	}
	stuckRead := func(where func(key []byte) bool) func(e *controlEnv) func() {
		return func(e *controlEnv) func() {
			e.stuck.stuckRead = func(r kv.KeyRange) bool { return where(r.Start) }
			return func() {}
		}
	}
	return []situation{
		{
			name: "behind another job", statement: addUnique, state: "queueing", wait: "which is before it",
			begin: func(e *controlEnv) func() {
				const before = "alter table p add column d int"
				_, end := e.open()
				e.async(context.Background(), before)
				first := e.eventually(before, "the job before it", func(j JobInfo) bool { return j.WaitReason != "" })
				return func() {
					require.NoError(e.t, e.ddl.Cancel(context.Background(), []int64{first.ID})[0])
					end()
				}
			},
		},
		{
			name: "memory", statement: addUnique, wait: "waiting for memory: fastddl_ddl_memory_quota",
			begin: func(e *controlEnv) func() {
				e.set(config.MemoryQuota, strconv.Itoa(10<<20))
				other, err := e.resources.Join(context.Background(), ingest.ShareOptions{JobID: math.MaxInt64, Indexes: 1})
				require.NoError(e.t, err)
				return other.Leave
			},
		},
		{name: "scan", statement: addUnique, stage: "scan", builds: true, begin: stuckScan(nil)},
		{
			name: "transactions", statement: addUnique, stage: "transactions", builds: true,
			begin: func(e *controlEnv) func() {
				e.set(config.EnableFastReorg, "OFF")
				return stuckScan(nil)(e)
			},
		},
		{
			name: "throttled import", statement: addKey, stage: "merge", builds: true,
			wait: "throttled: tidb_ddl_reorg_max_write_speed",
			begin: func(e *controlEnv) func() {
				e.set(config.ReorgMaxWriteSpeed, "1")
				return func() {}
			},
		},
		{
			name: "verify", statement: addUnique, stage: "verify", builds: true,
			begin: stuckRead(func(k []byte) bool { return tablecodec.IsIndexKey(k) && !tablecodec.IsTempIndexKey(k) }),
		},
		{name: "check of unique values", statement: addKey, stage: stageCheckUnique, begin: stuckRead(func(k []byte) bool { return tablecodec.IsIndexKey(k) && tablecodec.IsTempIndexKey(k) })},
		{name: "next attempt", statement: addUnique, wait: "next attempt after error: backfill: sample keys: no luck", stage: "scan", begin: stuckScan(errors.New("no luck"))},
		lockSituation("", addUnique, ""),
		lockSituation("before change-schema delete-only", addUnique, ""),
		lockSituation("before change-schema write-only", addKey, ""),
		lockSituation("before change-schema write-only", "alter table p add column d int", ""),
		lockSituation("before change-schema write-reorg", addUnique, ""),
		lockSituation("before change-schema complete", addKey, stageCheckUnique),
	}
}

// lockSituation is a job that waits for two transactions that wrote at a point in
// its life, or before it was queued.
func lockSituation(point, statement, stage string) situation {
	return situation{
		name: "lock for " + statement + ", written " + cmp.Or(point, "before it"), statement: statement, stage: stage,
		wait: "metadata lock, held by 2 transactions: connections 7, 7",
		begin: func(e *controlEnv) func() {
			var ends []func()
			open := func() {
				for range 2 {
					_, end := e.open()
					ends = append(ends, end)
				}
			}
			if point == "" {
				open()
			} else {
				e.at[point] = open
			}
			return func() {
				for _, end := range ends {
					end()
				}
			}
		},
	}
}

// open begins a transaction that has written p.
func (e *controlEnv) open() (commit func() error, rollback func()) {
	return e.write("p", func(txn kv.Txn, tbl *table.Table) { assert.NoError(e.t, e.add(txn, tbl, 1000, 1000, 1)) })
}

// TestControlInEachSituation: whatever a job does or waits for, it is altered,
// paused, resumed and cancelled at once, and what it had is given back while it
// is paused.
func TestControlInEachSituation(t *testing.T) {
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			e := newControlEnv(t)
			before := e.table("p").Info
			undo := s.begin(e)
			done := e.async(context.Background(), s.statement)
			c := &controlled{controlEnv: e, situation: s}
			c.id = c.requireSituation().ID

			c.alter(2, 64)
			c.pause()
			c.alter(1, 32)
			c.resume()
			c.requireSituation()
			c.alter(3, 96)
			c.cancel(done, undo)
			require.Equal(t, definition(t, before), definition(t, e.table("p").Info))
		})
	}
}

// controlled is a job in a situation.
type controlled struct {
	*controlEnv
	situation
	id int64
}

func (c *controlled) requireSituation() JobInfo {
	c.t.Helper()
	j := c.eventually(c.statement, "the situation", func(j JobInfo) bool {
		waits := j.WaitReason == "" && c.wait == "" || c.wait != "" && strings.Contains(j.WaitReason, c.wait)
		builds := j.Building != nil && j.Building.Workers > 0
		return j.State == cmp.Or(c.state, "running") && j.Stage == c.stage && waits && builds == c.builds
	})
	if !c.builds {
		require.False(c.t, j.HasRemaining)
	}
	return j
}

// alter changes the settings, as far as the job has any.
func (c *controlled) alter(threads, batch int) {
	c.t.Helper()
	speed := int64(threads) << 40
	err := c.ddl.Alter(context.Background(), c.id, Alteration{Threads: &threads, MaxWriteSpeed: &speed})
	if c.job(c.statement).Building == nil {
		require.ErrorContains(c.t, err, "unsupported DDL operation")
		return
	}
	require.NoError(c.t, err)
	require.NoError(c.t, c.ddl.Alter(context.Background(), c.id, Alteration{BatchSize: &batch}))
	j := c.job(c.statement)
	require.Equal(c.t, threads, j.Building.Threads)
	require.Equal(c.t, batch, j.Building.BatchSize)
	require.Equal(c.t, speed, j.Settings.MaxWriteSpeed)
	if c.builds && j.State == "running" && c.stage != "transactions" {
		require.LessOrEqual(c.t, j.Building.Workers, threads)
	}
}

func (c *controlled) pause() {
	c.t.Helper()
	require.NoError(c.t, c.ddl.Pause(context.Background(), []int64{c.id})[0])
	j := c.eventually(c.statement, "paused", func(j JobInfo) bool {
		return j.State == "paused" && (j.Building == nil || j.Building.Workers == 0)
	})
	require.Equal(c.t, "paused", j.WaitReason)
	require.False(c.t, j.HasRemaining)
	if j.Building != nil {
		require.Zero(c.t, j.Building.MemoryBytes+j.Building.TempBytes)
	}
	e := dirEntries(c.t, c.tempDir)
	require.Empty(c.t, e, "files")
	c.requireCode(c.ddl.Pause(context.Background(), []int64{c.id})[0], 8262, "")
}

func (c *controlled) resume() {
	c.t.Helper()
	require.NoError(c.t, c.ddl.Resume(context.Background(), []int64{c.id})[0])
	c.eventually(c.statement, "resumed", func(j JobInfo) bool { return j.State != "paused" })
	c.requireCode(c.ddl.Resume(context.Background(), []int64{c.id})[0], 8261, "")
}

// cancel cancels the job and ends the situation when that is all that undoing the
// job waits for.
func (c *controlled) cancel(done <-chan error, undo func()) {
	c.t.Helper()
	start := time.Now()
	require.NoError(c.t, c.ddl.Cancel(context.Background(), []int64{c.id})[0])
	if strings.HasPrefix(c.wait, "metadata lock") {
		c.eventually(c.statement, "cancelled", func(j JobInfo) bool {
			return (j.State == "rollingback" && strings.HasPrefix(j.WaitReason, "metadata lock")) || j.State == "cancelled"
		})
		undo()
		undo = func() {}
	}
	c.requireCode(<-done, 8214, "Cancelled DDL job")
	require.Less(c.t, time.Since(start), promptly)
	undo()
	require.ErrorContains(c.t, c.ddl.Alter(context.Background(), c.id, Alteration{}), fmt.Sprintf("ddl job %d is not running", c.id))
	require.Eventually(c.t, func() bool { return len(c.ddl.tasks()) == 0 }, promptly, time.Millisecond)
	c.requireNoTrace()
}

// What a job that takes things away has begun cannot be undone, and what has
// ended cannot be controlled, even while its space comes back: requests are
// refused at once, and change nothing.
func TestControlThatComesTooLate(t *testing.T) {
	ctx := context.Background()
	const drop = "alter table p drop index b"
	e := newControlEnv(t)
	store := &piecesStore{Store: e.store}
	e.store = store
	e.env.restart(nil)
	_, end := e.open()
	done := e.async(ctx, drop)
	j := e.eventually(drop, "the job waits", func(j JobInfo) bool { return j.WaitReason == "metadata lock, held by 1 transaction: connection 7" })
	ids := []int64{j.ID}
	e.requireCode(e.ddl.Cancel(ctx, ids)[0], 8226, "")
	e.requireCode(e.ddl.Pause(ctx, ids)[0], 8260, "")
	e.requireCode(e.ddl.Resume(ctx, ids)[0], 8261, "")
	require.EqualError(t, e.ddl.Alter(ctx, j.ID, Alteration{}),
		"unsupported DDL operation: drop index. Supported DDL operations are: ADD INDEX and ADD PRIMARY KEY")
	require.Equal(t, "running", e.job(drop).State)
	end()
	require.NoError(t, <-done)

	j = e.job(drop)
	require.Equal(t, "synced", j.State)
	require.Equal(t, "reclaim", j.Stage)
	require.Equal(t, "garbage collection: tidb_gc_life_time", j.WaitReason)
	e.requireCode(e.ddl.Cancel(ctx, ids)[0], 8225, "")
	e.requireCode(e.ddl.Pause(ctx, ids)[0], 8260, "")
	e.requireCode(e.ddl.Resume(ctx, ids)[0], 8261, "")
	require.EqualError(t, e.ddl.Alter(ctx, j.ID, Alteration{}), fmt.Sprintf("ddl job %d is not running", j.ID))
	store.pass()
	j = e.eventually(drop, "the space is back", func(j JobInfo) bool { return j.Stage == "" })
	require.Empty(t, j.WaitReason)
}

// The client of a job that is paused, or paused before its turn, goes away: the
// job is cancelled at once.
func TestInterruptOfPausedJobs(t *testing.T) {
	e := newControlEnv(t)
	e.stuck.stuckScan = func() error { return nil }
	var done []<-chan error
	ctx, interrupt := context.WithCancel(context.Background())
	for _, statement := range []string{addKey, addUnique} {
		done = append(done, e.async(ctx, statement))
		j := e.eventually(statement, "it is there", func(j JobInfo) bool { return j.ID != 0 })
		require.NoError(t, e.ddl.Pause(ctx, []int64{j.ID})[0])
		e.eventually(statement, "paused", func(j JobInfo) bool { return j.State == "paused" })
	}
	interrupt()
	start := time.Now()
	for _, d := range done {
		e.requireCode(<-d, 1317, "")
	}
	require.Less(t, time.Since(start), promptly)
	e.requireNoTrace()
	e.requireConsistent()
}

// What ADMIN ALTER and the session have set stays so when the process does not.
func TestSettingsSurviveARestart(t *testing.T) {
	e := newControlEnv(t)
	e.stuck.stuckScan = func() error { return nil }
	req := request(t, addUnique)
	req.Priority = config.PriorityHigh
	done := make(chan error, 1)
	go func() {
		_, err := e.ddl.Execute(context.Background(), req)
		done <- err
	}()
	j := e.eventually(addUnique, "it runs", func(j JobInfo) bool { return j.Building != nil && j.Building.Workers == 2 })
	require.Equal(t, config.PriorityHigh, j.Priority)
	threads, speed := 1, int64(1<<20)
	require.NoError(t, e.ddl.Alter(context.Background(), j.ID, Alteration{Threads: &threads, MaxWriteSpeed: &speed}))
	e.eventually(addUnique, "one worker", func(j JobInfo) bool { return j.Building.Workers == 1 })
	require.Equal(t, int64(16), e.ddl.find(j.ID).settings.Get().Weight)

	e.env.restart(func(o *Options) {
		o.Backfiller = NewBackfiller(backfill.Options{Store: e.store, Globals: o.Globals, Bus: o.Bus, MaxWorkers: 2})
	})
	require.ErrorIs(t, <-done, ErrClosed)
	j = e.eventually(addUnique, "it goes on", func(j JobInfo) bool { return j.Building != nil && j.Building.Workers > 0 })
	require.Equal(t, config.PriorityHigh, j.Priority)
	require.Equal(t, 1, j.Building.Workers)
	require.Equal(t, ingest.Settings{Weight: 16, Workers: 1, WriteSpeed: speed}, e.ddl.find(j.ID).settings.Get())
	require.NoError(t, e.ddl.Cancel(context.Background(), []int64{j.ID})[0])
	waitFor(t, "the end", func() bool { return len(e.ddl.tasks()) == 0 })
}
