package job

import (
	"errors"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/internal/errs"
)

// Action is what a job needs to have done next.
type Action string

// The actions.
const (
	// ActAwaitTurn waits until no earlier job has the table.
	ActAwaitTurn Action = "await-turn"
	// ActAwaitVersion waits until no server uses a version before the record's.
	ActAwaitVersion Action = "await-version"
	// ActRepublish publishes a version without a change and keeps the step: what was
	// waited for before a restart is not known.
	ActRepublish Action = "republish"
	// ActChangeSchema writes the schema of the next step with the record in one
	// transaction and publishes it. Some steps change nothing but the version.
	ActChangeSchema Action = "change-schema"
	// ActTakeSnapshot takes S, makes garbage collection hold it, and records it.
	ActTakeSnapshot Action = "take-snapshot"
	// ActAwaitOlder waits, for a while, for transactions that began before S.
	ActAwaitOlder Action = "await-older"
	// ActBackfill imports the entries at S and verifies them.
	ActBackfill Action = "backfill"
	// ActCompare compares unique indexes with the rows and repairs them.
	ActCompare Action = "compare"
	// ActFinish cleans up and moves the job to the history.
	ActFinish Action = "finish"
	// ActSleep waits before the next attempt of what failed.
	ActSleep Action = "sleep"
	// ActPark waits for a request: the job is paused.
	ActPark Action = "park"
	// ActAwaitWindow waits until the job's window opens.
	ActAwaitWindow Action = "await-window"
	// ActReleaseHold releases garbage collection, which the job needs no more.
	ActReleaseHold Action = "release-hold"
	// ActAwaitPublication waits until the indexes may become public.
	ActAwaitPublication Action = "await-publication"
)

// Machine decides what a job does next: events and the record in, actions and the
// next record out. It never changes a record: a decision that shows in one, such as
// that the job is undone, is a new record, which the owner makes durable. What the
// machine holds beside the record is lost with the process and need not be known
// after a restart.
type Machine struct {
	record *Record // never changed, only replaced
	// turn: no earlier job has the table.
	turn bool
	// waited: no server uses a version before the record's. resumed: it is not known whether
	// one can still be waited for.
	waited, resumed bool
	// calm: transactions that began before S have ended, or were waited for long enough.
	calm bool
	// failures is how often in a row it has failed without progress, furthest the latest step that it has reached.
	failures int64
	furthest int
	// backoff is the time to wait before the next attempt.
	backoff time.Duration
	limits  Limits
}

// NewMachine returns the machine of a new job.
func NewMachine(r *Record) *Machine {
	return &Machine{record: r, furthest: slices.Index(stepOrder, r.Step)}
}

// ResumeMachine returns the machine of a job that was loaded again.
func ResumeMachine(r *Record) *Machine {
	if r.Step == stepQuiet { // its S may be one of write-only
		after := *r
		after.Step = StepWriteOnly
		after.ForgetSnapshot()
		r = &after
	}
	m := NewMachine(r)
	m.turn, m.resumed = r.Step != StepQueued, r.SchemaVersion != 0
	return m
}

// Record is the record as of the last action or decision. Neither the machine nor its
// owner changes it.
func (m *Machine) Record() *Record { return m.record }

// Limit tells the machine what the job may not do from now on.
func (m *Machine) Limit(l Limits) { m.limits = l }

// Ends says that an action that is under way has to end because of the limits, though it is not done.
func (m *Machine) Ends(act Action) bool {
	switch act {
	case ActAwaitWindow:
		return !m.closed()
	case ActAwaitPublication:
		return !m.limits.Unpublished
	case ActAwaitTurn, ActPark, ActReleaseHold, ActFinish, ActSleep:
		return false
	}
	return m.closed()
}

// closed says that the job may not work because its window is closed. What is to be undone is undone at any time, and what has become public
// is completed: it holds up other statements.
func (m *Machine) closed() bool {
	return m.limits.Closed && m.record.Step.Revertible() && !m.record.RollingBack()
}

// decide replaces the record by a copy that change has changed.
func (m *Machine) decide(change func(after *Record)) {
	after := *m.record
	change(&after)
	m.record = &after
}

// Next returns the action to do, and the step the job is at when it is done.
func (m *Machine) Next() (Action, Step) {
	if r := m.record; r.Request == RequestCancel && r.Step.Revertible() && !r.RollingBack() {
		m.RollBack(dbterror.ErrCancelledDDLJob.FastGenByArgs())
	}
	if r := m.record; r.overdue() {
		m.RollBack(r.errOverdue())
	}
	r := m.record
	if r.Request == RequestPause && r.Step.Revertible() && !r.RollingBack() {
		return ActPark, r.Step
	}
	if m.backoff > 0 {
		return ActSleep, r.Step
	}
	to := r.forward()
	if r.RollingBack() {
		to = r.backward()
	} else if !m.turn {
		return ActAwaitTurn, r.Step
	}
	if m.limits.Unpublished && !r.RollingBack() {
		switch {
		case r.Step == StepReady:
			return ActAwaitPublication, r.Step
		case to == StepPublic:
			return ActReleaseHold, StepReady
		}
	}
	if m.closed() {
		return ActAwaitWindow, r.Step
	}
	if !m.waited && r.waits() {
		if m.resumed {
			return ActRepublish, r.Step
		}
		return ActAwaitVersion, r.Step
	}
	switch to {
	case StepSnapshot:
		return ActTakeSnapshot, to
	case StepBackfilled:
		if !m.calm {
			return ActAwaitOlder, r.Step
		}
		return ActBackfill, to
	case StepCompared:
		return ActCompare, to
	case StepFinished:
		return ActFinish, to
	}
	return ActChangeSchema, to
}

// Prepare returns the record of the job at a step: a copy to be completed and
// written.
func (m *Machine) Prepare(to Step) *Record {
	after := *m.record
	after.Revision++
	after.Step = to
	after.IndexIDs = slices.Clone(m.record.IndexIDs)
	after.Changes = slices.Clone(m.record.Changes)
	after.TakenRows = slices.Clone(m.record.TakenRows)
	if after.State == model.JobStateQueueing && to != StepQueued {
		after.State = model.JobStateRunning
	}
	if to == StepFinished {
		after.Request = RequestNone
		switch {
		case !after.RollingBack():
			after.State = model.JobStateSynced
		case m.record.Step == StepQueued:
			after.State = model.JobStateCancelled
		default:
			after.State = model.JobStateRollbackDone
		}
	}
	return &after
}

// Reached tells the machine what was written.
func (m *Machine) Reached(after *Record) {
	// Everybody has to reach a new version.
	if after.SchemaVersion != m.record.SchemaVersion {
		m.waited, m.resumed = false, false
	}
	if after.SnapshotTS != m.record.SnapshotTS {
		m.calm = false
	}
	if n := slices.Index(stepOrder, after.Step); n > m.furthest { // a job that goes back to take another S has not come further
		m.furthest = n
		m.Progressed()
	}
	m.record = after
}

// Progressed tells the machine that what is under way has come further: failures before do not count any more.
func (m *Machine) Progressed() { m.failures = 0 }

// Failures is how often in a row the job has failed without progress.
func (m *Machine) Failures() int64 { return m.failures }

// HasTurn tells the machine that ActAwaitTurn was done.
func (m *Machine) HasTurn() { m.turn = true }

// Waited tells the machine that ActAwaitVersion was done.
func (m *Machine) Waited() { m.waited = true }

// AwaitedOlder tells the machine that ActAwaitOlder was done.
func (m *Machine) AwaitedOlder() { m.calm = true }

// Slept tells the machine that ActSleep was done.
func (m *Machine) Slept() { m.backoff = 0 }

// BackoffTime is how long ActSleep lasts.
func (m *Machine) BackoffTime() time.Duration { return m.backoff }

// Failed tells the machine that an action failed. limit is how many failures in a row,
// without progress between them, a job survives. It returns whether the action will be tried again; otherwise the
// job is undone. What cannot be undone any more is tried again for ever.
func (m *Machine) Failed(err error, limit int64) (retry bool) {
	m.decide(func(after *Record) { after.ErrorCount++ })
	m.failures++
	if r := m.record; r.Step.Revertible() && !r.RollingBack() && (IsPermanent(err) || m.failures > limit) {
		m.RollBack(err)
		return false
	}
	m.backoff = Backoff(m.failures)
	return true
}

// RollBack makes the job be undone for a reason.
func (m *Machine) RollBack(err error) {
	if m.record.RollingBack() || !m.record.Step.Revertible() {
		return
	}
	m.decide(func(after *Record) {
		after.State = model.JobStateRollingback
		after.Error = ErrorOf(err)
		after.rowsOf(err)
	})
	m.backoff = 0
}

// CheckRequest says why a request cannot be met, in TiDB's words; nil if it can.
func (r *Record) CheckRequest(want Request) error {
	late := r.Ended() || !r.Step.Revertible() && !r.RollingBack()
	switch {
	case want == RequestCancel && r.Ended():
		return dbterror.ErrCancelFinishedDDLJob.FastGenByArgs(r.ID)
	case want == RequestCancel && (late || r.RollingBack()):
		return dbterror.ErrCannotCancelDDLJob.FastGenByArgs(r.ID)
	case want == RequestPause && r.Request == RequestPause:
		return dbterror.ErrPausedDDLJob.FastGenByArgs(r.ID)
	case want == RequestPause && (late || r.RollingBack() || r.Request == RequestCancel):
		return dbterror.ErrCannotPauseDDLJob.FastGenByArgs(r.ID, "state "+r.ShownState().String())
	case want == RequestNone && r.Request != RequestPause:
		return dbterror.ErrCannotResumeDDLJob.FastGenByArgs(r.ID, "state "+r.ShownState().String())
	}
	return nil
}

// WithRequest returns a copy of the record with a request that can be met.
func (r *Record) WithRequest(want Request) *Record {
	after := *r
	after.Revision++
	if after.State == model.JobStatePaused {
		after.State, after.PausedTS = model.JobStateRunning, 0
		if after.Step == StepQueued {
			after.State = model.JobStateQueueing
		}
	}
	after.Request = want
	return &after
}

// permanentError is an error that no further attempt can cure.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error that no further attempt can cure.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent says that trying again is no use.
func IsPermanent(err error) bool { return errors.As(err, new(permanentError)) }

// ErrorOf makes a job's error of err.
func ErrorOf(err error) *terror.Error {
	if te := FindTerror(err); te != nil {
		return te
	}
	return dbterror.ClassDDL.Synthesize(terror.CodeUnknown, errs.OneLine(err).Error())
}

// FindTerror returns the error with a MySQL number that err wraps, in the way of
// the standard library or of pingcap/errors; nil if there is none.
func FindTerror(err error) *terror.Error {
	switch e := err.(type) {
	case nil:
		return nil
	case *terror.Error:
		return e
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if te := FindTerror(inner); te != nil {
				return te
			}
		}
		return nil
	case interface{ Cause() error }:
		return FindTerror(e.Cause())
	}
	return FindTerror(errors.Unwrap(err))
}
