package ddl

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/ddl/mdl"
	"fastddl/event"
)

// Stages that are not those of a backfill, and what they wait for.
const (
	stageCheckUnique = "check unique"
	stageReclaim     = "reclaim"
	waitForGC        = "garbage collection: tidb_gc_life_time"
)

// view is what is shown of a running job beside its record.
type view struct {
	mu       sync.Mutex
	progress job.Progress
	// wait is what the job waits for, failure what it has failed with last.
	wait    string
	failure string
}

func (v *view) setWait(reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wait = reason
}

// setRetry says that the job waits for its next attempt.
func (v *view) setRetry() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wait = "next attempt after error: " + v.failure
}

// fill completes what is shown of a job that has not ended.
func (v *view) fill(info *JobInfo, step job.Step, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	info.RowCount = max(info.RowCount, v.progress.Rows())
	info.Percent = v.progress.Percent()
	info.WaitReason = v.wait
	switch step {
	case job.StepSnapshot:
		info.RowsPerSecond = v.progress.RowsPerSecond()
		info.Remaining, info.HasRemaining = v.progress.Remaining(now)
		info.Stage = v.progress.Stage()
	case job.StepComplete:
		info.Stage = stageCheckUnique
	}
}

// waitReason is what a job waits for: ahead is the job that is before it, own and
// held what the job and its build say.
func waitReason(j, ahead *job.Job, own, held string) string {
	switch {
	case j.ShownState() == model.JobStatePaused:
		return "paused"
	case ahead != nil && ahead.ShownState() == model.JobStatePaused:
		return fmt.Sprintf("job %d, which is before it and paused", ahead.ID)
	case ahead != nil:
		return fmt.Sprintf("job %d, which is before it", ahead.ID)
	case own != "":
		return own
	}
	return held
}

// maxShownBlockers is how many of the transactions that a job waits for are
// named.
const maxShownBlockers = 3

// lockWaitReason names the transactions that a job waits for.
func lockWaitReason(blockers []mdl.Blocker) string {
	if len(blockers) == 1 {
		return fmt.Sprintf("metadata lock, held by 1 transaction: connection %d", blockers[0].ConnID)
	}
	var names []string
	for _, b := range blockers[:min(len(blockers), maxShownBlockers)] {
		names = append(names, strconv.FormatUint(b.ConnID, 10))
	}
	if len(blockers) > maxShownBlockers {
		names = append(names, "...")
	}
	return fmt.Sprintf("metadata lock, held by %d transactions: connections %s", len(blockers), strings.Join(names, ", "))
}

// onEvent keeps the views up to date.
func (d *DDL) onEvent(e event.Event) {
	found, ok := d.views.Load(e.JobID())
	if !ok {
		return
	}
	v := found.(*view)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := e.(type) {
	case event.Progress:
		v.progress.Set(time.Now(), job.Report{
			Stage: e.Stage, Rows: e.RowsDone, Total: e.RowsTotal, Imported: e.RowsImported, StageDone: e.StageDone,
		})
	case event.StageChanged:
		v.progress.SetStage(time.Now(), e.Stage)
	case event.Retry:
		v.failure = e.Err.Error()
	}
}
