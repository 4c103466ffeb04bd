package job

import (
	"errors"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// world executes what a machine decides, and checks the invariants.
type world struct {
	t       *testing.T
	m       *Machine
	version int64
	// synced is the newest version that has been waited for.
	synced  int64
	publics int
	// snapshots counts S; calmAt is the one that older transactions were waited for at.
	snapshots, calmAt uint64
	// defers: the entries at S are summed up only if differs says that a comparison, the first,
	// finds a difference. importedAt is the version at the last import.
	defers, differs bool
	importedAt      int64
	// steps is the number of actions, comparedAt that before the last comparison, readyAt that before the job was ready last.
	steps, comparedAt, readyAt int
	actions                    []Action
	given                      map[*Record]Record // the last record that the machine had, as it was then
}

func newWorld(t *testing.T, unique bool) *world {
	return &world{t: t, m: NewMachine(&Record{ID: 1, RowID: 1, State: model.JobStateQueueing, Compare: unique}), given: map[*Record]Record{}}
}

// requireRecordsKept checks that the machine has changed none of the records that it was given or has returned.
func (w *world) requireRecordsKept() {
	w.t.Helper()
	for r, was := range w.given {
		require.Equal(w.t, was, *r, "the machine has changed a record")
	}
	clear(w.given)
	w.given[w.m.Record()] = *w.m.Record()
}

// states are the schema states next to each other.
var states = map[model.SchemaState]int{
	model.StateNone: 0, model.StateDeleteOnly: 1, model.StateWriteOnly: 2, model.StateWriteReorganization: 3, model.StatePublic: 4,
}

// step executes the next action and returns it.
func (w *world) step() (Action, Step) {
	w.requireRecordsKept()
	defer w.requireRecordsKept()
	act, to := w.m.Next()
	w.actions = append(w.actions, act)
	w.steps++
	before := w.m.Record()
	switch act {
	case ActAwaitTurn:
		w.m.HasTurn()
	case ActAwaitVersion:
		w.synced = w.version
		w.m.Waited()
	case ActAwaitOlder:
		require.NotZero(w.t, before.SnapshotTS)
		w.calmAt = before.SnapshotTS
		w.m.AwaitedOlder()
	case ActSleep:
		w.m.Slept()
	case ActPark:
		after := w.m.Prepare(to)
		after.State, after.PausedTS = model.JobStatePaused, 1
		w.m.Reached(after)
	case ActAwaitWindow, ActAwaitPublication:
		require.False(w.t, w.m.Ends(act), "a wait that is over before it begins")
	case ActReleaseHold:
		after := w.m.Prepare(to)
		after.MakeReady()
		w.readyAt = w.steps
		w.m.Reached(after)
	default:
		back := act == ActCompare && before.Deferred && w.differs
		if back {
			to = StepSnapshot
		}
		after := w.m.Prepare(to)
		switch act {
		case ActChangeSchema, ActRepublish:
			w.version++
			after.SchemaVersion = w.version
			w.checkChange(before, after)
		case ActTakeSnapshot:
			require.Equal(w.t, w.version, w.synced, "I2: S is taken when everybody is at write-reorg")
			require.Equal(w.t, model.StateWriteReorganization, before.SchemaState())
			w.snapshots++
			after.SnapshotTS = w.snapshots
		case ActBackfill:
			require.NotZero(w.t, before.SnapshotTS)
			w.comparedAt = 0
			require.Equal(w.t, before.SnapshotTS, w.calmAt, "imported without a wait for older transactions")
			after.Deferred = w.defers && before.Compare && !before.Differed
			w.importedAt = w.version
		case ActCompare:
			require.Equal(w.t, w.version, w.synced, "compared before the drain has ended")
			require.Greater(w.t, w.version, w.importedAt, "I6: compared without a drain after the import")
			if back {
				after.VerifyBuild()
			}
			w.comparedAt = w.steps
		}
		w.m.Reached(after)
	}
	return act, to
}

// checkChange checks that states that can be in use together are next to each
// other (I1).
func (w *world) checkChange(before, after *Record) {
	from, to := states[before.SchemaState()], states[after.SchemaState()]
	switch {
	case after.SchemaState() == before.SchemaState():
	case after.RollingBack() && w.synced < w.version:
		// Those at the step before this one, too, must be next to the new state.
		require.LessOrEqual(w.t, to, 1)
		require.LessOrEqual(w.t, from-to, 2)
	case after.RollingBack():
	default:
		require.Equal(w.t, from+1, to)
		if from != states[model.StateNone] {
			require.Equal(w.t, w.version-1, w.synced, "I1: from %q", before.Step)
		}
	}
	if after.Step == StepPublic && before.Step != StepPublic {
		w.publics++
		require.Equal(w.t, before.Compare, before.Step == StepCompared)
		require.False(w.t, w.m.limits.Unpublished, "published without permission")
		if before.Compare {
			require.Greater(w.t, w.comparedAt, w.readyAt, "published without another comparison after the wait")
		}
	}
	if before.Step.Revertible() && !after.RollingBack() {
		require.False(w.t, w.m.limits.Closed, "a schema version outside the window")
	}
}

func (w *world) run() {
	for range 1000 {
		if w.m.Record().Ended() {
			return
		}
		w.step()
	}
	require.Fail(w.t, "the job does not end")
}

func TestSteps(t *testing.T) {
	w := newWorld(t, false)
	w.run()
	require.Equal(t, []Action{
		ActAwaitTurn, ActChangeSchema, ActAwaitVersion, ActChangeSchema, ActAwaitVersion, ActChangeSchema, ActAwaitVersion,
		ActTakeSnapshot, ActAwaitOlder, ActBackfill, ActChangeSchema, ActAwaitVersion, ActFinish,
	}, w.actions)
	require.Equal(t, model.JobStateSynced, w.m.Record().State)
	require.Equal(t, model.StatePublic, w.m.Record().SchemaState())

	w = newWorld(t, true)
	w.run()
	require.Equal(t, []Action{ActBackfill, ActChangeSchema, ActAwaitVersion, ActCompare, ActChangeSchema, ActAwaitVersion, ActFinish}, w.actions[9:])
}

// TestVerifyBuild: a job whose comparison finds a difference goes back to the build that it has not
// verified, once, and drains again.
func TestVerifyBuild(t *testing.T) {
	w := newWorld(t, true)
	w.defers, w.differs = true, true
	w.run()
	require.Equal(t, []Action{
		ActBackfill, ActChangeSchema, ActAwaitVersion, ActCompare,
		ActBackfill, ActChangeSchema, ActAwaitVersion, ActCompare, ActChangeSchema, ActAwaitVersion, ActFinish,
	}, w.actions[9:])
	require.True(t, w.m.Record().Differed)
}

// TestAnotherSnapshot: a job whose S is lost takes another one, and waits for those that are
// older than that.
func TestAnotherSnapshot(t *testing.T) {
	w := newWorld(t, false)
	for w.m.Record().Step != StepSnapshot || w.actions[len(w.actions)-1] != ActAwaitOlder {
		w.step()
	}
	again := w.m.Prepare(StepWriteReorg)
	again.ForgetSnapshot()
	w.m.Reached(again)
	w.actions = nil
	w.run()
	require.Equal(t, []Action{ActTakeSnapshot, ActAwaitOlder, ActBackfill, ActChangeSchema, ActAwaitVersion, ActFinish}, w.actions)
}

// A job of a version that could take S in write-only takes it again.
func TestSnapshotOfWriteOnly(t *testing.T) {
	w := newWorld(t, false)
	for w.m.Record().Step != StepSnapshot {
		w.step()
	}
	old := w.m.Prepare("quiet")
	w.m, w.actions = ResumeMachine(old), nil
	w.run()
	require.Equal(t, []Action{
		ActRepublish, ActAwaitVersion, ActChangeSchema, ActAwaitVersion,
		ActTakeSnapshot, ActAwaitOlder, ActBackfill, ActChangeSchema, ActAwaitVersion, ActFinish,
	}, w.actions)
}

// For all errors, requests and crashes, at any time: the job ends, and it is public or
// has left nothing.
func TestRandomHistories(t *testing.T) {
	rng := randtest.Rand(t)
	for range 3000 {
		w := newWorld(t, rng.IntN(2) == 0)
		w.defers, w.differs = rng.IntN(2) == 0, rng.IntN(2) == 0
		asked := false
		for range 200 {
			r := w.m.Record()
			if r.Ended() {
				break
			}
			switch rng.IntN(13) {
			case 12:
				w.m.Limit(Limits{Closed: rng.IntN(2) == 0, Unpublished: rng.IntN(2) == 0})
			case 0: // the process dies
				limits := w.m.limits
				stored := *r
				if stored.RollingBack() && stored.Step.Revertible() {
					stored.State = model.JobStateRunning // that was not durable yet
					stored.Error = nil
				}
				w.m = ResumeMachine(&stored)
				w.m.Limit(limits)
			case 1:
				want := []Request{RequestCancel, RequestPause, RequestNone}[rng.IntN(3)]
				if r.CheckRequest(want) == nil {
					w.m.Reached(r.WithRequest(want))
					asked = asked || want == RequestCancel
				}
			case 2:
				w.m.Next()
				if rng.IntN(4) == 0 {
					w.m.Failed(Permanent(errors.New("no way")), 10)
				} else {
					w.m.Failed(errors.New("try again"), 10)
				}
			default:
				w.step()
			}
		}
		if w.m.Record().Request == RequestPause {
			w.m.Reached(w.m.Record().WithRequest(RequestNone))
		}
		w.m.Limit(Limits{})
		w.run()
		r := w.m.Record()
		if r.State == model.JobStateSynced {
			require.Equal(t, 1, w.publics)
			require.Equal(t, model.StatePublic, r.SchemaState())
			continue
		}
		require.Contains(t, []model.JobState{model.JobStateRollbackDone, model.JobStateCancelled}, r.State)
		require.Zero(t, w.publics)
		require.Equal(t, model.StateNone, r.SchemaState())
		require.NotNil(t, r.Error, "asked: %v", asked)
	}
}

func TestErrors(t *testing.T) {
	m := NewMachine(&Record{ID: 1})
	m.HasTurn()
	require.True(t, m.Failed(errors.New("once"), 1))
	act, _ := m.Next()
	require.Equal(t, ActSleep, act)
	require.Equal(t, Backoff(1), m.BackoffTime())
	require.False(t, m.Failed(errors.New("twice"), 1), "the limit is passed")
	require.Equal(t, "twice", m.Record().Error.GetMsg())

	m = NewMachine(&Record{ID: 1})
	for n := range 5 { // days apart, and each time it has come further
		require.True(t, m.Failed(errors.New("now and then"), 1))
		require.Equal(t, Backoff(1), m.BackoffTime())
		require.Equal(t, int64(n+1), m.Record().ErrorCount)
		m.Progressed()
	}
	require.True(t, m.Failed(errors.New("once"), 1))
	m.Reached(m.Prepare(StepDeleteOnly))
	require.True(t, m.Failed(errors.New("once at the next step"), 1))

	m = NewMachine(&Record{ID: 1, Step: StepSnapshot})
	require.True(t, m.Failed(errors.New("S was lost"), 1))
	m.Reached(m.Prepare(StepWriteReorg))
	m.Reached(m.Prepare(StepSnapshot)) // where it has been before
	require.False(t, m.Failed(errors.New("S was lost"), 1))

	m = NewMachine(&Record{ID: 1})
	require.False(t, m.Failed(Permanent(errors.Join(errors.New("one"), errors.New("two"))), 100))
	require.Equal(t, "one; two", m.Record().Error.GetMsg(), "clients are shown one line")

	m = NewMachine(&Record{ID: 1})
	dup := &RowsError{Err: dbterror.ErrDupKeyName.FastGenByArgs("x"), Duplicates: []Duplicate{{Index: "i", Rows: 2}}}
	require.False(t, m.Failed(Permanent(dup), 100))
	require.True(t, dbterror.ErrDupKeyName.Equal(m.Record().Error))
	require.Len(t, m.Record().Duplicates, 1)

	m = NewMachine(&Record{ID: 1, Step: StepPublic})
	require.True(t, m.Failed(Permanent(errors.New("too late")), 0), "what is public is never undone")
}

func TestRequests(t *testing.T) {
	r := &Record{ID: 7, Step: StepPublic, State: model.JobStateRunning}
	require.True(t, dbterror.ErrCannotCancelDDLJob.Equal(r.CheckRequest(RequestCancel)))
	require.True(t, dbterror.ErrCannotPauseDDLJob.Equal(r.CheckRequest(RequestPause)))
	require.True(t, dbterror.ErrCannotResumeDDLJob.Equal(r.CheckRequest(RequestNone)))
	r = (&Record{ID: 7, Step: StepWriteOnly, State: model.JobStateRunning}).WithRequest(RequestPause)
	require.Equal(t, model.JobStatePausing, r.ShownState())
	require.True(t, dbterror.ErrPausedDDLJob.Equal(r.CheckRequest(RequestPause)))
	r = r.WithRequest(RequestNone)
	require.Equal(t, model.JobStateRunning, r.ShownState())
}

func TestAhead(t *testing.T) {
	on := func(db, table string) []model.InvolvingSchemaInfo {
		return []model.InvolvingSchemaInfo{{Database: db, Table: table}}
	}
	shared := []model.InvolvingSchemaInfo{{Database: "d", Table: "t", Mode: model.SharedInvolving}}
	policy := []model.InvolvingSchemaInfo{{Policy: "p"}}
	for _, test := range []struct {
		earlier, mine []model.InvolvingSchemaInfo
		waits         bool
	}{
		{on("d", "t"), on("d", "t"), true},
		{on("d", "t"), on("d", "u"), false},
		{on("d", "t"), on("e", "t"), false},
		{on("d", "*"), on("d", "t"), true},
		{on("*", "*"), on("d", "t"), true},
		{shared, on("d", "t"), true},
		{shared, shared, false},
		{policy, on("d", "t"), false},
	} {
		queue := []Queued{{ID: 3, Involving: test.earlier}, {ID: 9, Involving: on("d", "t")}}
		ahead := Ahead(queue, 5, test.mine)
		require.Equal(t, test.waits, ahead == 3, "%v then %v", test.earlier, test.mine)
		require.Zero(t, Ahead(queue, 2, test.mine))
	}
	require.EqualValues(t, 4, Ahead([]Queued{{ID: 1, Involving: on("d", "t")}, {ID: 4, Involving: on("d", "t")}, {ID: 5, Involving: on("d", "t")}}, 5, on("d", "t")),
		"all that wait would look at once when the first is gone")
}
