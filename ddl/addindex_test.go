package ddl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/table"
)

func dirEntries(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAddIndex(t *testing.T) {
	e := newEnv(t)
	e.fill(20)
	var states []string
	e.bus.Subscribe(func(ev event.Event) {
		if s, ok := ev.(event.SchemaStateChanged); ok {
			states = append(states, s.State)
		}
	})
	e.must("alter table t add index k (k), add index kc (k, c(5)) comment 'both'")
	require.Equal(t, []string{"delete only", "write only", "write reorganization", "public"}, states)

	tasks := e.fake.built()
	require.Len(t, tasks, 1, "both indexes are built by one scan")
	require.Len(t, tasks[0].Indexes, 2)
	for _, idx := range tasks[0].Indexes {
		require.Equal(t, model.StateWriteReorganization, idx.State)
	}
	for _, name := range []string{"k", "kc"} {
		idx := e.index("t", name)
		require.Equal(t, model.StatePublic, idx.State)
		require.Equal(t, 20, e.entries(table.IndexRange(e.table("t").Info.ID, idx.ID)))
	}
	e.requireNoTrace()

	jobs := e.jobs()
	require.Equal(t, "alter table multi-schema change", jobs[0].Type)
	require.Equal(t, "synced", jobs[0].State)
	require.Equal(t, "public", jobs[0].SchemaState)
	require.EqualValues(t, 20, jobs[0].RowCount)
	require.EqualValues(t, 100, jobs[0].Percent)
	require.False(t, jobs[0].StartTime.IsZero() || jobs[0].EndTime.IsZero())
}

// I2: S is taken when everybody writes the index, so a row that a transaction
// from before write-reorg commits is seen at S.
func TestSnapshotIsTakenAfterOldWriters(t *testing.T) {
	e := newEnv(t)
	e.fill(3)
	commit, _ := e.write("t", func(txn kv.Txn, tbl *table.Table) {
		_, err := tbl.AddRecord(context.Background(), txn, datums(int64(100), int64(1), "late"), table.AddOptions{})
		require.NoError(t, err)
	})
	done := e.async(context.Background(), "alter table t add index k (k)")
	waitFor(t, "the job waits for the transaction", func() bool {
		return len(e.locks.Blockers()) == 1 && e.jobs()[0].WaitReason != ""
	})
	b := e.locks.Blockers()[0]
	require.EqualValues(t, 7, b.ConnID)
	jobs := e.jobs()
	require.Equal(t, "running", jobs[0].State)
	require.Equal(t, "delete only", jobs[0].SchemaState, "I1: the state after the one that the transaction writes under")
	require.Equal(t, "metadata lock, held by 1 transaction: connection 7", jobs[0].WaitReason)
	require.Equal(t, jobs[0].ID, b.JobID)

	// Nobody else waits: others write and commit meanwhile.
	e.insert("t", []any{int64(101), int64(2), "meanwhile"})
	require.NoError(t, commit())
	require.NoError(t, <-done)
	require.Equal(t, 5, e.entries(table.IndexRange(e.table("t").Info.ID, e.index("t", "k").ID)))
}

// I2: nor is it taken while somebody writes under write-only.
func TestSnapshotWaitsForWriteOnly(t *testing.T) {
	e := newEnv(t)
	e.fill(3)
	var commit func() error
	e.restart(func(o *Options) {
		o.Hook = func(_ context.Context, p HookPoint) error {
			if p.String() == "after change-schema write-only" {
				commit, _ = e.write("t", func(txn kv.Txn, tbl *table.Table) {
					_, err := tbl.AddRecord(context.Background(), txn, datums(int64(100), int64(1), "late"), table.AddOptions{})
					require.NoError(t, err)
				})
			}
			return nil
		}
	})
	done := e.async(context.Background(), "create index k on t (k)")
	waitFor(t, "the job waits", func() bool { return len(e.locks.Blockers()) == 1 })
	require.Equal(t, "write reorganization", e.jobs()[0].SchemaState)
	require.Empty(t, e.fake.built())
	require.NoError(t, commit())
	require.NoError(t, <-done)
}

// I3 and I4: the snapshot is held from garbage collection from before it is
// recorded until it is not used any more.
func TestSnapshotIsHeld(t *testing.T) {
	e := newEnv(t)
	e.fill(3)
	recorded := false
	e.restart(func(o *Options) {
		o.Hook = func(ctx context.Context, p HookPoint) error {
			if p.String() == "after take-snapshot snapshot" {
				recorded = true
				holds, err := e.store.GCHolds(ctx)
				assert.NoError(t, err)
				assert.Equal(t, map[string]uint64{holdName(p.JobID, e.ddl.term): e.ddl.find(p.JobID).snapshot().SnapshotTS}, holds)
			}
			return nil
		}
	})
	e.fake.set(func(ctx context.Context, task BackfillTask) error {
		holds, err := e.store.GCHolds(ctx)
		assert.NoError(t, err)
		assert.Equal(t, map[string]uint64{holdName(task.JobID, e.ddl.term): task.TS}, holds)
		return nil
	})
	e.must("create index k on t (k)")
	require.True(t, recorded)
	e.requireNoTrace()
}

// I4: the hold is renewed for as long as the job builds.
func TestHoldIsRenewed(t *testing.T) {
	e := newEnv(t)
	e.fill(3)
	const ttl = 100 * time.Millisecond
	e.restart(func(o *Options) { o.HoldTTL = ttl })
	e.fake.set(func(ctx context.Context, task BackfillTask) error {
		time.Sleep(2 * ttl)
		assert.Eventually(t, func() bool {
			holds, err := e.store.GCHolds(ctx)
			return err == nil && holds[holdName(task.JobID, e.ddl.term)] == task.TS
		}, 10*time.Second, ttl/20)
		return nil
	})
	e.must("create index k on t (k)")
	e.requireNoTrace()
}

// expiredStore is a store whose garbage collection has passed a timestamp.
type expiredStore struct {
	kv.Store
	ts uint64
}

func (s *expiredStore) HoldGC(ctx context.Context, name string, ts uint64, ttl time.Duration) (kv.GCHold, error) {
	if ts <= s.ts {
		return nil, kv.ErrSnapshotTooOld
	}
	return s.Store.HoldGC(ctx, name, ts, ttl)
}

// A node that was down for longer than its hold lasts takes another snapshot.
func TestExpiredHold(t *testing.T) {
	e := newEnv(t)
	e.fill(10)
	errCrash := errors.New("crash")
	e.fake.set(func(ctx context.Context, task BackfillTask) error {
		assert.NoError(t, task.SaveCheckpoint(ctx, []byte("half")))
		return nil
	})
	var lost uint64
	e.restart(func(o *Options) {
		o.Hook = func(_ context.Context, p HookPoint) error {
			if p.String() == "before backfill backfilled" {
				lost = e.ddl.find(p.JobID).snapshot().SnapshotTS
				return errCrash
			}
			return nil
		}
	})
	require.ErrorIs(t, e.exec("create index k on t (k)"), errCrash)
	e.insert("t", []any{int64(100), int64(1), "later"})
	e.store = &expiredStore{e.store, lost}
	e.restart(nil)
	waitFor(t, "the job ends", func() bool { return e.jobs()[0].State == "synced" })
	tasks := e.fake.built()
	require.Len(t, tasks, 1)
	require.Greater(t, tasks[0].TS, lost)
	require.Nil(t, tasks[0].Checkpoint)
	require.Equal(t, 11, e.entries(table.IndexRange(e.table("t").Info.ID, e.index("t", "k").ID)))
}

// A hold that has expired while the job was paused is taken again before S is
// used again.
func TestHoldIsTakenAnew(t *testing.T) {
	e := newEnv(t)
	e.fill(5)
	attempts := 0
	e.restart(nil)
	e.fake.set(func(ctx context.Context, task BackfillTask) error {
		holds, err := e.store.GCHolds(ctx)
		assert.NoError(t, err)
		assert.Equal(t, map[string]uint64{holdName(task.JobID, e.ddl.term): task.TS}, holds)
		if attempts++; attempts > 1 {
			return nil
		}
		hold, err := e.store.HoldGC(ctx, holdName(task.JobID, e.ddl.term), task.TS, time.Hour)
		assert.NoError(t, err)
		assert.NoError(t, hold.Release(ctx))
		return errors.New("once more")
	})
	e.must("alter table t add index k (k)")
	require.Equal(t, 2, attempts)
	e.requireNoTrace()
}

// What a build has saved is given to the next attempt.
func TestCheckpoint(t *testing.T) {
	e := newEnv(t)
	e.fill(10)
	var seen []string
	e.fake.set(func(ctx context.Context, task BackfillTask) error {
		seen = append(seen, string(task.Checkpoint))
		assert.NoError(t, task.SaveCheckpoint(ctx, []byte("half")))
		if len(seen) == 1 {
			return errors.New("try again")
		}
		return nil
	})
	e.must("create index k on t (k)")
	require.Equal(t, []string{"", "half"}, seen)
	data, err := loadCheckpoint(context.Background(), e.cat, e.jobs()[0].ID)
	require.NoError(t, err)
	require.Nil(t, data)
}

func TestCancelInEachStep(t *testing.T) {
	for _, point := range []string{
		"before change-schema delete-only", "after change-schema delete-only", "after wait-lock delete-only",
		"after change-schema write-only", "after change-schema write-reorg", "after take-snapshot snapshot",
		"before backfill backfilled", "after backfill backfilled",
	} {
		t.Run(point, func(t *testing.T) {
			e := newEnv(t)
			e.fill(10)
			cancelled := false
			e.restart(func(o *Options) {
				o.Hook = func(ctx context.Context, p HookPoint) error {
					if p.String() == point && !cancelled {
						cancelled = true
						assert.NoError(t, e.ddl.Cancel(ctx, []int64{p.JobID})[0])
					}
					return nil
				}
			})
			e.fake.set(func(_ context.Context, task BackfillTask) error {
				return os.MkdirAll(filepath.Join(ingest.JobDir(e.tempDir, task.JobID), "runs"), 0o700)
			})
			before := e.table("t").Info
			err := e.exec("alter table t add index k (k), add column d int, comment 'x'")
			e.requireCode(err, 8214, "Cancelled DDL job")
			info := e.table("t").Info
			require.Nil(t, info.FindIndexByName("k"))
			require.Len(t, info.Columns, 3)
			require.Empty(t, info.Comment)
			require.Zero(t, e.entries(table.IndexRange(info.ID, before.MaxIndexID+1)))
			e.requireNoTrace()
			jobs := e.jobs()
			require.Contains(t, []string{"rollback done", "cancelled"}, jobs[0].State)
			require.Equal(t, "none", jobs[0].SchemaState)
			require.Equal(t, "Cancelled DDL job", jobs[0].Error)

			require.True(t, cancelled)
			// The table is as good as new.
			require.NoError(t, e.exec("alter table t add index k (k)"))
			require.Equal(t, 10, e.entries(table.IndexRange(info.ID, e.index("t", "k").ID)))
		})
	}
}

// A running backfill is interrupted by a cancellation, also one of the client's.
func TestCancelDuringBackfill(t *testing.T) {
	for _, how := range []string{"admin", "kill"} {
		t.Run(how, func(t *testing.T) {
			e := newEnv(t)
			e.fill(10)
			started := make(chan int64, 1)
			e.fake.set(func(ctx context.Context, task BackfillTask) error {
				started <- task.JobID
				<-ctx.Done()
				return ctx.Err()
			})
			ctx, kill := context.WithCancel(context.Background())
			defer kill()
			done := e.async(ctx, "create index k on t (k)")
			id := <-started
			if how == "admin" {
				require.NoError(t, e.ddl.Cancel(ctx, []int64{id})[0])
				e.requireCode(<-done, 8214, "")
			} else {
				kill()
				e.requireCode(<-done, 1317, "Query execution was interrupted")
			}
			require.Nil(t, e.index("t", "k"))
			e.requireNoTrace()
		})
	}
}

// Rolling back has to wait for writers too; a killed client does not wait with
// it.
func TestKillDoesNotWaitForBlockers(t *testing.T) {
	e := newEnv(t)
	e.fill(3)
	ctx, kill := context.WithCancel(context.Background())
	defer kill()
	started := make(chan struct{})
	e.fake.set(func(ctx context.Context, _ BackfillTask) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	done := e.async(ctx, "create index k on t (k)")
	<-started
	commit, _ := e.write("t", func(kv.Txn, *table.Table) {})
	kill()
	e.requireCode(<-done, 1317, "")
	require.Equal(t, "rollingback", e.jobs()[0].State)
	require.NoError(t, commit())
	waitFor(t, "the job ends", func() bool { return e.jobs()[0].State == "rollback done" })
	e.requireNoTrace()
}

func TestCancelErrors(t *testing.T) {
	e := newEnv(t)
	e.fill(1)
	id := e.jobs()[0].ID
	errs := e.ddl.Cancel(context.Background(), []int64{id, 999999})
	e.requireCode(errs[0], 8225, "")
	e.requireCode(errs[1], 8224, "DDL Job:999999 not found")
	e.requireCode(e.ddl.Pause(context.Background(), []int64{id})[0], 8260, "")
	e.requireCode(e.ddl.Resume(context.Background(), []int64{id})[0], 8261, "")

	e.restart(func(o *Options) {
		o.Hook = func(ctx context.Context, p HookPoint) error {
			if p.String() == "after change-schema switched" {
				assert.ErrorContains(t, e.ddl.Cancel(ctx, []int64{p.JobID})[0], "[ddl:8226]")
			}
			return nil
		}
	})
	e.must("alter table t add index k (k), drop column c")
}

func TestFailedBackfill(t *testing.T) {
	e := newEnv(t)
	e.fill(5)
	attempts := 0
	e.fake.set(func(context.Context, BackfillTask) error {
		if attempts++; attempts < 3 {
			return errors.New("disk is slow today")
		}
		return nil
	})
	e.must("create index k on t (k)")
	require.Equal(t, 3, attempts)
	require.EqualValues(t, 2, e.jobs()[0].ErrorCount)

	_, _, err := e.globals.Set("tidb_ddl_error_count_limit", "2")
	require.NoError(t, err)
	attempts = -100
	err = e.exec("create index k2 on t (k)")
	require.ErrorContains(t, err, "disk is slow today")
	require.Equal(t, -97, attempts, "two more attempts after the first")
	require.Nil(t, e.index("t", "k2"))
	e.requireNoTrace()
	require.Equal(t, "rollback done", e.jobs()[0].State)
}

func TestPauseAndResume(t *testing.T) {
	e := newEnv(t)
	e.fill(5)
	e.must("create table u (id int primary key, k int)")
	started := make(chan int64, 2)
	e.fake.set(func(ctx context.Context, task BackfillTask) error {
		if task.Table.Name.L == "u" {
			return nil
		}
		started <- task.JobID
		<-ctx.Done()
		return ctx.Err()
	})
	done := e.async(context.Background(), "create index k on t (k)")
	id := <-started
	ctx := context.Background()
	require.NoError(t, e.ddl.Pause(ctx, []int64{id})[0])
	waitFor(t, "paused", func() bool { return e.jobs()[0].State == "paused" })
	queued := e.async(ctx, "alter table t add index k2 (k)")
	waitFor(t, "queued behind", func() bool { return len(e.jobs()) > 1 && e.jobs()[1].State == "queueing" })

	// Another table does not care.
	e.must("create index k on u (k)")

	// A job that is paused stays so over a restart.
	e.restart(nil)
	require.ErrorIs(t, <-done, ErrClosed)
	require.ErrorIs(t, <-queued, ErrClosed)
	require.Equal(t, "paused", e.jobs()[0].State)
	require.NoError(t, e.ddl.Resume(ctx, []int64{id})[0])
	waitFor(t, "both done", func() bool {
		return !slices.ContainsFunc(e.jobs(), func(j JobInfo) bool { return j.State != "synced" })
	})
	require.Equal(t, model.StatePublic, e.index("t", "k2").State)
	e.requireNoTrace()
}

// A job that waits for its turn is cancelled at once.
func TestCancelQueuedJob(t *testing.T) {
	e := newEnv(t)
	e.fill(5)
	release, started := make(chan struct{}), make(chan struct{})
	e.fake.set(func(context.Context, BackfillTask) error {
		close(started)
		<-release
		return nil
	})
	first := e.async(context.Background(), "create index k on t (k)")
	<-started
	ctx, kill := context.WithCancel(context.Background())
	second := e.async(ctx, "create index k2 on t (k)")
	waitFor(t, "queued", func() bool { return len(e.jobs()) > 1 && e.jobs()[1].State == "queueing" })
	kill()
	e.requireCode(<-second, 1317, "")
	close(release)
	require.NoError(t, <-first)
	require.Nil(t, e.index("t", "k2"))
	states := map[string]string{}
	for _, j := range e.jobs() {
		if strings.HasPrefix(j.Query, "create index") {
			states[j.Query] = j.State
		}
	}
	require.Equal(t, map[string]string{"create index k on t (k)": "synced", "create index k2 on t (k)": "cancelled"}, states)
}

// The process dies before and after each action of an ADD INDEX; the job goes on
// after the restart.
func TestCrashAtEachPoint(t *testing.T) {
	errCrash := errors.New("crash")
	var points []string
	e := newEnv(t)
	e.fill(10)
	e.restart(func(o *Options) {
		o.Hook = func(_ context.Context, p HookPoint) error {
			points = append(points, p.String())
			return nil
		}
	})
	e.must("alter table t add index k (k), drop column c")
	require.Greater(t, len(points), 25)

	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			e := newEnv(t)
			e.fill(10)
			old := e.table("t").Info
			e.restart(func(o *Options) {
				o.Hook = func(_ context.Context, p HookPoint) error {
					if p.String() == point {
						return errCrash
					}
					return nil
				}
			})
			require.ErrorIs(t, e.exec("alter table t add index k (k), drop column c"), errCrash)
			var snapshots []uint64
			for _, task := range e.fake.built() {
				snapshots = append(snapshots, task.TS)
			}
			e.restart(nil)
			waitFor(t, "the job ends", func() bool { return e.jobs()[0].State == "synced" })
			for _, task := range e.fake.built() {
				snapshots = append(snapshots, task.TS)
			}
			require.Len(t, slices.Compact(snapshots), 1, "S is used again")
			info := e.table("t").Info
			require.Equal(t, model.StatePublic, info.FindIndexByName("k").State)
			require.Equal(t, 10, e.entries(table.IndexRange(old.ID, info.FindIndexByName("k").ID)))
			require.Len(t, info.Columns, 2)
			e.requireNoTrace()
		})
	}
}

// What a process that died left behind goes when the next one starts.
func TestLeftoversAreRemoved(t *testing.T) {
	e := newEnv(t)
	ctx := context.Background()
	require.NoError(t, e.ddl.removeFiles(1))
	require.NoError(t, os.MkdirAll(e.tempDir+"/job-4711/x", 0o700))
	require.NoError(t, os.WriteFile(e.tempDir+"/notes.txt", nil, 0o600))
	ts, err := e.store.CurrentTS(ctx)
	require.NoError(t, err)
	_, err = e.store.HoldGC(ctx, holdName(4711, 1), ts, time.Hour)
	require.NoError(t, err)
	_, err = e.store.HoldGC(ctx, "backup", ts, time.Hour)
	require.NoError(t, err)
	e.restart(nil)
	require.Equal(t, []string{"notes.txt"}, dirEntries(t, e.tempDir))
	holds, err := e.store.GCHolds(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"backup": ts}, holds)
}

func TestDropIndexDeletesItsData(t *testing.T) {
	e := newEnv(t)
	e.fill(10)
	e.must("create index k on t (k)")
	r := table.IndexRange(e.table("t").Info.ID, e.index("t", "k").ID)
	require.Equal(t, 10, e.entries(r))
	var states []string
	e.bus.Subscribe(func(ev event.Event) {
		if s, ok := ev.(event.SchemaStateChanged); ok {
			states = append(states, s.State)
		}
	})
	e.must("drop index k on t")
	require.Equal(t, []string{"write only", "delete only", "none"}, states)
	require.Nil(t, e.index("t", "k"))
	require.Equal(t, 10, e.entries(r), "an open snapshot may still read it")
	ranges, err := loadDeleteRanges(context.Background(), e.cat)
	require.NoError(t, err)
	require.Len(t, ranges, 1)
	require.Equal(t, "none", e.jobs()[0].SchemaState)
}

// I7: an ID belongs to one index for ever, whatever became of it, since data of
// the old index may still be there.
func TestIndexIDsAreNotUsedAgain(t *testing.T) {
	e := newEnv(t)
	e.fill(5)
	var last int64
	for i, fails := range []bool{false, true, false} {
		e.fake.set(func(_ context.Context, task BackfillTask) error {
			id := task.Indexes[0].ID
			assert.Greater(t, id, last, "index %d", i)
			last = id
			if fails {
				return job.Permanent(errors.New("what cannot be built"))
			}
			return nil
		})
		err := e.exec("create index k on t (k)")
		if fails {
			require.ErrorContains(t, err, "what cannot be built")
			continue
		}
		require.NoError(t, err)
		e.must("drop index k on t")
	}
}

// BenchmarkFixedCost is the time a job takes on an idle server with next to no
// rows: queue, schema states, metadata lock.
func BenchmarkFixedCost(b *testing.B) {
	e := newEnv(b)
	e.fill(1)
	for b.Loop() {
		e.must("alter table t add index k (k)")
		b.StopTimer()
		e.must("drop index k on t")
		b.StartTimer()
	}
}
