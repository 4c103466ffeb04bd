package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/builder"
)

// Action is what a job needs to have done next.
type Action string

// The actions.
const (
	// ActWaitLock waits until nobody can write the job's tables under a version
	// before the current one.
	ActWaitLock Action = "wait-lock"
	// ActChangeSchema writes the schema of the next step, with the job's record,
	// in one metadata transaction, and publishes it.
	ActChangeSchema Action = "change-schema"
	// ActTakeSnapshot takes S, makes garbage collection hold it, and writes it
	// to the job's record.
	ActTakeSnapshot Action = "take-snapshot"
	// ActBackfill builds the new indexes at S and verifies them.
	ActBackfill Action = "backfill"
	// ActCheckUnique looks at the markers of the new unique indexes.
	ActCheckUnique Action = "check-unique"
	// ActFinish cleans up and moves the job's record to the history.
	ActFinish Action = "finish"
	// ActSleep waits before the next attempt of what failed.
	ActSleep Action = "sleep"
	// ActPark waits for a request: the job is paused.
	ActPark Action = "park"
)

// Machine decides what a job does next. It works on a job record that its owner
// keeps durable; what it holds beside the record is lost with the process and
// need not be known after a restart.
type Machine struct {
	job *Job
	// waited: nobody writes under a version before the current one.
	waited bool
	// backoff is the time to wait before the next attempt.
	backoff time.Duration
}

// NewMachine returns the machine of a job that is new or was loaded again.
func NewMachine(j *Job) *Machine { return &Machine{job: j} }

// Start tells the machine that it is the job's turn.
func (m *Machine) Start() {
	if m.job.State == model.JobStateQueueing {
		m.job.State = model.JobStateRunning
	}
}

// Job is the record as of the last action that was done.
func (m *Machine) Job() *Job { return m.job }

// Next returns the action to do, and the step the job is at when it is done.
func (m *Machine) Next() (Action, Step) {
	j := m.job
	if j.Request == RequestCancel && j.Step.revertible() && !j.RollingBack() {
		m.rollBack(dbterror.ErrCancelledDDLJob.FastGenByArgs())
	}
	if j.Request == RequestPause && j.Step.revertible() && !j.RollingBack() {
		return ActPark, j.Step
	}
	if m.backoff > 0 {
		return ActSleep, j.Step
	}
	s := j.shape()
	to := s.forward(j.Step)
	if j.RollingBack() {
		to = s.backward(j.Step)
	}
	if !m.waited && s.waits(j.Step, to) {
		return ActWaitLock, j.Step
	}
	switch to {
	case StepSnapshot:
		return ActTakeSnapshot, to
	case StepBackfilled:
		return ActBackfill, to
	case StepUnique:
		return ActCheckUnique, to
	case StepFinished:
		return ActFinish, to
	}
	return ActChangeSchema, to
}

// After returns the record of the job at a step: a copy to be completed and
// written.
func (m *Machine) After(to Step) *Job {
	after := *m.job
	after.Revision++
	after.Step = to
	after.Changes = slices.Clone(m.job.Changes)
	after.Warnings = slices.Clone(m.job.Warnings)
	if to != StepFinished {
		return &after
	}
	after.Request = RequestNone
	switch {
	case !after.RollingBack():
		after.State = model.JobStateSynced
	case m.job.Step == StepStart:
		after.State = model.JobStateCancelled
	default:
		after.State = model.JobStateRollbackDone
	}
	return &after
}

// Waited tells the machine that ActWaitLock was done.
func (m *Machine) Waited() { m.waited = true }

// Slept tells the machine that ActSleep was done.
func (m *Machine) Slept() { m.backoff = 0 }

// Reached tells the machine that the job has reached a step: after is the record
// that was written.
func (m *Machine) Reached(after *Job) {
	// A new schema version has been published, so there is somebody to wait for
	// again.
	if after.SchemaVersion != m.job.SchemaVersion {
		m.waited = false
	}
	m.job = after
}

// Failed tells the machine that an action failed. limit is how many failures a
// job survives. It returns whether the action will be tried again; otherwise the
// job rolls back.
func (m *Machine) Failed(err error, limit int64) (retry bool) {
	j := m.job
	j.ErrorCount++
	if j.Step.revertible() && !j.RollingBack() && (IsPermanent(err) || j.ErrorCount > limit) {
		m.rollBack(err)
		return false
	}
	m.backoff = Backoff(j.ErrorCount)
	return true
}

// BackoffTime is how long ActSleep lasts.
func (m *Machine) BackoffTime() time.Duration { return m.backoff }

func (m *Machine) rollBack(err error) {
	m.job.State = model.JobStateRollingback
	m.job.Error, m.job.Duplicates = NewError(err), duplicatesOf(err)
	m.backoff = 0
}

// SetRequest puts a client's request on a job's record, or says why not.
func (j *Job) SetRequest(r Request) error {
	done := j.Ended() || !j.Step.revertible() && !j.RollingBack()
	switch {
	case r == RequestCancel && j.Ended():
		return dbterror.ErrCancelFinishedDDLJob.FastGenByArgs(j.ID)
	case r == RequestCancel && done:
		return dbterror.ErrCannotCancelDDLJob.FastGenByArgs(j.ID)
	case r == RequestPause && j.Request == RequestPause:
		return dbterror.ErrPausedDDLJob.FastGenByArgs(j.ID)
	case r == RequestPause && (done || j.RollingBack() || j.Request == RequestCancel):
		return dbterror.ErrCannotPauseDDLJob.FastGenByArgs(j.ID, fmt.Sprintf("the state is %s", j.ShownState()))
	case r == RequestNone && j.Request != RequestPause:
		return dbterror.ErrCannotResumeDDLJob.FastGenByArgs(j.ID, fmt.Sprintf("the state is %s", j.ShownState()))
	}
	if j.State == model.JobStatePaused {
		j.State = model.JobStateRunning
	}
	j.Request = r
	return nil
}

// permanentError is an error that no further attempt can cure.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error that no further attempt can cure.
func Permanent(err error) error { return permanentError{err} }

// IsPermanent says that trying again is no use: the error is marked by
// Permanent, or says so by a method Permanent() bool, or has a MySQL number.
func IsPermanent(err error) bool {
	if errors.As(err, new(permanentError)) {
		return true
	}
	var p interface{ Permanent() bool }
	if errors.As(err, &p) {
		return p.Permanent()
	}
	_, coded := builder.AsTerror(err)
	return coded
}

// NewError makes a job's error of err.
func NewError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	if te, ok := builder.AsTerror(err); ok {
		return &Error{Code: uint16(te.Code()), Message: te.GetMsg()}
	}
	var coded interface{ MySQLCode() uint16 }
	if errors.As(err, &coded) {
		return &Error{Code: coded.MySQLCode(), Message: err.Error()}
	}
	return &Error{Code: errno.ErrUnknown, Message: err.Error()}
}

// SQLState is the error's SQLSTATE.
func (e *Error) SQLState() string {
	if s, ok := mysql.MySQLState[e.Code]; ok {
		return s
	}
	return mysql.DefaultMySQLState
}
