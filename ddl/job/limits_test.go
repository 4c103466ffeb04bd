package job

import (
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/config"
)

// TestLimits shows what the settings of a job say of a moment.
func TestLimits(t *testing.T) {
	night := at(t, "2026-01-15T23:00:00+01:00")
	s := Settings{Window: "22:00-06:00 Europe/Berlin", Publish: config.PublishManual}
	require.Equal(t, Limits{Unpublished: true}, s.Limits(night))
	require.Equal(t, Limits{Closed: true, Unpublished: true}, s.Limits(night.Add(12*time.Hour)))
	require.Equal(t, "its window: 22:00-06:00 Europe/Berlin opens at 2026-01-16 22:00 CET", s.WaitForWindow(night.Add(12*time.Hour)))
	require.Equal(t, Limits{}, Settings{Publish: config.PublishNow}.Limits(night))
	require.Equal(t, Limits{Closed: true}, Settings{Window: "at night"}.Limits(night), "what cannot be read is closed")
	require.Contains(t, Settings{Window: "at night"}.WaitForWindow(night), "cannot read")
}

// A job whose window closes does nothing any more, at every step until its indexes are public; what is public is completed.
func TestClosedWindow(t *testing.T) {
	for _, unique := range []bool{false, true} {
		w := newWorld(t, unique)
		w.m.record.Changes = []Change{{Type: model.ActionDropIndex}}
		for !w.m.Record().Ended() {
			r := w.m.Record()
			w.m.Limit(Limits{Closed: true})
			act, to := w.m.Next()
			switch {
			case r.Step == StepQueued && !w.m.turn:
				require.Equal(t, ActAwaitTurn, act, "the queue is not work")
			case r.Step.Revertible():
				require.Equal(t, ActAwaitWindow, act, "at %q", r.Step)
				require.Equal(t, r.Step, to)
			default:
				require.NotEqual(t, ActAwaitWindow, act, "at %q", r.Step)
			}
			w.m.Limit(Limits{})
			act, _ = w.m.Next()
			require.False(t, w.m.Ends(act))
			w.m.Limit(Limits{Closed: true})
			require.Equal(t, r.Step.Revertible() && act != ActAwaitTurn, w.m.Ends(act), "%s at %q", act, r.Step)
			w.m.Limit(Limits{})
			w.step()
		}
		require.Equal(t, 1, w.publics)
	}
}

// A job is cancelled, and undone, outside its window too.
func TestCancelledOutsideTheWindow(t *testing.T) {
	w := newWorld(t, false)
	for w.m.Record().Step != StepSnapshot {
		w.step()
	}
	w.m.Limit(Limits{Closed: true})
	act, _ := w.m.Next()
	require.Equal(t, ActAwaitWindow, act)
	w.m.Reached(w.m.Record().WithRequest(RequestCancel))
	w.run()
	require.Equal(t, model.JobStateRollbackDone, w.m.Record().State)
}

// Indexes that may not become public are ready, and what compares is compared again before it does.
func TestManualPublication(t *testing.T) {
	for unique, actions := range map[bool][]Action{
		false: {ActChangeSchema, ActAwaitVersion, ActFinish},
		true:  {ActCompare, ActChangeSchema, ActAwaitVersion, ActFinish},
	} {
		w := newWorld(t, unique)
		w.m.Limit(Limits{Unpublished: true})
		for w.m.Record().Step != StepReady {
			w.step()
		}
		require.Equal(t, model.StateWriteReorganization, w.m.Record().SchemaState())
		for range 3 {
			act, _ := w.step()
			require.Equal(t, ActAwaitPublication, act)
		}
		require.True(t, dbterror.ErrCannotResumeDDLJob.Equal(w.m.Record().CheckRequest(RequestNone)), "RESUME does not publish")
		w.m = ResumeMachine(w.m.Record())
		w.m.Limit(Limits{Unpublished: true})
		act, _ := w.step()
		require.Equal(t, ActAwaitPublication, act, "after a restart")

		w.m.Limit(Limits{Unpublished: true, Closed: true})
		act, _ = w.m.Next()
		require.Equal(t, ActAwaitPublication, act, "it waits for the permission first")
		w.m.Limit(Limits{Closed: true})
		require.True(t, w.m.Ends(ActAwaitPublication))
		act, _ = w.m.Next()
		require.Equal(t, ActAwaitWindow, act)
		w.m.Limit(Limits{})
		w.actions = nil
		w.run()
		require.Equal(t, actions, w.actions)
	}
}

// A permission that is taken back while the indexes are compared the last time counts.
func TestPermissionTakenBack(t *testing.T) {
	w := newWorld(t, true)
	w.m.Limit(Limits{Unpublished: true})
	for w.m.Record().Step != StepReady {
		w.step()
	}
	w.m.Limit(Limits{})
	act, _ := w.step()
	require.Equal(t, ActCompare, act)
	w.m.Limit(Limits{Unpublished: true})
	w.step()
	require.Equal(t, StepReady, w.m.Record().Step)
}

// TestHoldOfAParkedJob: garbage collection is held from S on, or from when a client has paused the job.
func TestHoldOfAParkedJob(t *testing.T) {
	taken := at(t, "2026-01-15T23:00:00Z")
	r := &Record{SnapshotTS: oracle.GoTimeToTS(taken)}
	require.Equal(t, taken.Add(time.Hour).UnixMilli(), r.HoldEnds(time.Hour).UnixMilli())
	paused := *r
	paused.State, paused.PausedTS, paused.Request = model.JobStatePaused, oracle.GoTimeToTS(taken.Add(30*time.Hour)), RequestPause
	require.Equal(t, taken.Add(31*time.Hour).UnixMilli(), paused.HoldEnds(time.Hour).UnixMilli())
	require.Zero(t, paused.WithRequest(RequestNone).PausedTS)

	paused.GiveUpSnapshot(Settings{})
	require.Zero(t, paused.SnapshotTS)
	require.EqualValues(t, 1, paused.Restarts)
	require.Zero(t, paused.Overdue, "a pause is no sign that the work is too much")
	require.Contains(t, paused.BeginsAnew(), "will begin anew")
}

// A job that does not fit into its windows fails in the end, and says why. What a client changes of them counts.
func TestWorkThatDoesNotFit(t *testing.T) {
	short, long := Settings{Window: "02:00-03:00 UTC", MaxHold: time.Hour}, Settings{Window: "22:00-06:00 UTC", MaxHold: time.Hour}
	w := newWorld(t, false)
	giveUp := func(s Settings) (act Action) {
		for w.m.Record().Step != StepSnapshot {
			w.step()
		}
		after := w.m.Prepare(StepWriteReorg)
		after.GiveUpSnapshot(s)
		w.m.Reached(after)
		w.m.Limit(Limits{Closed: true})
		act, _ = w.m.Next()
		w.m.Limit(Limits{})
		return act
	}
	require.Equal(t, ActAwaitWindow, giveUp(short))
	require.Contains(t, w.m.Record().BeginsAnew(), "attempt 2 of 3")
	require.Equal(t, ActAwaitWindow, giveUp(short))
	require.Equal(t, ActAwaitWindow, giveUp(long))
	require.Contains(t, w.m.Record().BeginsAnew(), "attempt 2 of 3")
	require.Equal(t, ActAwaitWindow, giveUp(long))
	require.Equal(t, ActChangeSchema, giveUp(long), "undone")
	require.Contains(t, w.m.Record().Error.GetMsg(), "does not fit into its window")
	w.run()
	require.Equal(t, model.JobStateRollbackDone, w.m.Record().State)
}

// TestParkedByAnEarlierVersion: such a job is paused without a time of its pause, and does not hold garbage collection for ever.
func TestParkedByAnEarlierVersion(t *testing.T) {
	taken := at(t, "2026-01-15T23:00:00Z")
	r := &Record{Step: StepSnapshot, State: model.JobStatePaused, Request: RequestPause, SnapshotTS: oracle.GoTimeToTS(taken)}
	require.True(t, r.Parked(ActPark))
	require.False(t, r.GivesUpHold(taken.Add(time.Hour-time.Second), time.Hour))
	require.True(t, r.GivesUpHold(taken.Add(time.Hour), time.Hour))
	r.State = model.JobStateRunning
	require.False(t, r.Parked(ActPark), "it is not paused yet")
	require.True(t, r.Parked(ActAwaitWindow))
	require.False(t, r.Parked(ActBackfill))
	r.Step = StepReady
	require.True(t, r.GivesUpHold(taken, time.Hour), "it needs no hold")
}

// TestComparisonThatDoesNotFit: a comparison that the window cuts short again and again fails the job, before the publication too. One that
// ends in between, or other settings, count from the beginning.
func TestComparisonThatDoesNotFit(t *testing.T) {
	short, long := Settings{Window: "02:00-03:00 UTC", MaxHold: time.Hour}, Settings{Window: "22:00-06:00 UTC", MaxHold: time.Hour}
	for _, step := range []Step{StepDrained, StepReady} {
		w := newWorld(t, true)
		w.m.Limit(Limits{Unpublished: step == StepReady})
		for w.m.Record().Step != step {
			w.step()
		}
		cut := func(s Settings) (act Action) {
			after := *w.m.Record()
			after.CutShort(s)
			w.m.Reached(&after)
			w.m.Limit(Limits{Closed: true})
			act, _ = w.m.Next()
			w.m.Limit(Limits{})
			return act
		}
		require.Equal(t, ActAwaitWindow, cut(short))
		require.Equal(t, ActAwaitWindow, cut(short))
		require.Contains(t, w.m.Record().BeginsAnew(), "attempt 3 of 3")
		require.Equal(t, ActAwaitWindow, cut(long))
		require.Contains(t, w.m.Record().BeginsAnew(), "attempt 2 of 3")
		require.Equal(t, ActAwaitWindow, cut(long))
		require.Equal(t, ActChangeSchema, cut(long), "undone")
		require.Contains(t, w.m.Record().Error.GetMsg(), "the comparison of the index with the rows does not fit into its window: 3 attempts")
		w.run()
		require.Equal(t, model.JobStateRollbackDone, w.m.Record().State)
	}
}

// A job may hold garbage collection for a shorter time than others, not for a longer one.
func TestOwnHoldIsShorter(t *testing.T) {
	require.Equal(t, time.Hour, Settings{}.HoldAtMost(time.Hour))
	require.Equal(t, time.Minute, Settings{MaxHold: time.Minute}.HoldAtMost(time.Hour))
	require.Equal(t, time.Hour, Settings{MaxHold: 2 * time.Hour}.HoldAtMost(time.Hour))
}

// Nodes that do not know the step do not read a job at it.
func TestReadyIsOfThisProtocol(t *testing.T) {
	for before, after := range map[int]int{0: ScheduleProtocol, 3: ScheduleProtocol, 5: 5} {
		r := &Record{Protocol: before}
		r.MakeReady()
		require.Equal(t, after, r.Protocol)
	}
}
