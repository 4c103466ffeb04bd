package status

import (
	"sync"
	"time"

	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/kv"
)

// View is what is shown of a running job beside its record.
type View struct {
	mu       sync.Mutex
	progress job.Progress
	clock    job.StageClock
	// meter is what the job has cost the stores since this process has it.
	meter kv.Meter
	stage string
	// wait is what the job waits for, failure what it has failed with last.
	wait    string
	failure string
	// since is when the wait began that lasts, zero if there is none.
	since time.Time
	// blockers are the transactions that it waits for.
	blockers []Blocker
	// paused says that the wait is a pause.
	paused bool
	account
}

// SetWait shows what the job waits for; empty is nothing.
func (v *View) SetWait(reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits(reason, time.Now())
}

// waits sets what the job waits for. A wait lasts as long as there is a reason, whichever. The caller holds mu.
func (v *View) waits(reason string, now time.Time) {
	v.countWait(now, v.wait, v.blockers)
	v.wait = reason
	v.lasts(reason, now)
}

func (v *View) lasts(reason string, now time.Time) {
	switch {
	case reason == "":
		v.since = time.Time{}
	case v.since.IsZero():
		v.since = now
	}
}

// WaitSince is when a job began to wait that waits for a reason now, which may be one that the view does not know.
func (v *View) WaitSince(reason string, now time.Time) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.wait == "" {
		if paused := IsPaused(reason); paused != v.paused { // a pause is a wait of its own
			v.paused, v.since = paused, time.Time{}
		}
		v.lasts(reason, now)
	}
	return v.since
}

// setBlockers says which transactions the job waits for, and so in words.
func (v *View) setBlockers(reason string, blockers []Blocker) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits(reason, time.Now())
	v.blockers = blockers
}

// SetRetry says that the job waits for its next attempt.
func (v *View) SetRetry() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits("next attempt after error: "+v.failure, time.Now())
}

// SetPlan says what the build will do.
func (v *View) SetPlan(plan job.Plan) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress.SetPlan(plan)
}

// Meter returns the meter of what the job costs the stores.
func (v *View) Meter() *kv.Meter { return &v.meter }

// Waiting says that the job begins an action that waits or changes the schema, unless a stage is entered later.
func (v *View) Waiting() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock.Enter(time.Now(), job.StageWait)
}

// Rows is the number of rows read so far.
func (v *View) Rows() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.progress.Rows()
}

// Fill completes what is shown of a job that has not ended.
func (v *View) Fill(info *JobInfo, step job.Step, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	info.RowCount = max(info.RowCount, v.progress.Rows())
	info.Percent = v.progress.Percent()
	info.WaitReason, info.Blockers = v.wait, v.blockers
	switch step {
	case job.StepSnapshot:
		info.Stage = v.stage
	case job.StepDrained:
		info.Stage = job.StageCompare
	case job.StepReady:
		if v.wait == "" {
			info.Stage = job.StageCompare
		}
	}
	if info.Stage != "" {
		info.RowsPerSecond = v.progress.RowsPerSecond()
		info.Remaining, info.HasRemaining = v.progress.Remaining()
		info.RemainingReason = v.progress.Reason(now)
	}
	info.History = v.history(now)
	if !info.StartTime.IsZero() {
		v.points.Observe(now.Sub(info.StartTime), v.clock.Stage(), info.History)
	}
}

// OnEvent keeps the view up to date.
func (v *View) OnEvent(e event.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := e.(type) {
	case event.Progress:
		now := time.Now()
		r := job.Report{
			Stage: e.Stage, Rows: e.RowsDone, Total: e.RowsTotal, Imported: e.RowsImported, StageDone: e.StageDone,
			RowsBefore: e.RowsBefore, SortedBytes: e.BytesSorted, Workers: e.Workers, WriteSpeed: e.WriteSpeed, WriteLimit: e.WriteLimit,
		}
		v.progress.Set(now, r)
		v.clock.Report(now, r)
		v.countRead(e)
	case event.Ingested:
		v.countImported(int64(e.Bytes))
	case event.Spent:
		v.costs.Add(e.Costs)
		v.clock.Spent(e.Costs)
	case event.Throttled:
		v.countHeld(e)
	case event.StageChanged:
		v.stage = e.Stage
		if now := time.Now(); job.HasStage(e.Stage) {
			v.clock.Enter(now, e.Stage)
			v.progress.SetStage(now, e.Stage)
		}
	case event.IdleBlockerEnded:
		v.waited = job.AddWaited(v.waited, job.Waited{Reason: lockReason, ConnID: e.ConnID, User: v.userOf(e.ConnID), Ended: true})
	case event.Retry:
		v.failure = job.TextForAll(e.Err)
	}
}
