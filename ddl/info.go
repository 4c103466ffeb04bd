package ddl

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/event"
)

// JobInfo is a row of ADMIN SHOW DDL JOBS and information_schema.ddl_jobs.
type JobInfo struct {
	ID int64
	// DB and Table are names, SchemaID and TableID their IDs.
	DB, Table         string
	SchemaID, TableID int64
	// Type, SchemaState and State are named as TiDB names them.
	Type, SchemaState, State string
	Query                    string

	// CreateTime, StartTime and EndTime are zero if the job has not come so far.
	CreateTime, StartTime, EndTime time.Time

	// RowCount is the number of rows read by the backfill.
	RowCount int64
	// Percent is how much of the job is done, 0 to 100.
	Percent       float64
	RowsPerSecond float64
	// Remaining is the estimated time to go; HasRemaining is false without an
	// estimate.
	Remaining    time.Duration
	HasRemaining bool
	// Stage is what the backfill does, WaitReason what the job waits for.
	Stage, WaitReason string
	// ErrorCount is how often the job has failed, Error what it failed with.
	ErrorCount int64
	Error      string
	// Duplicates are the rows with equal values that a new unique index has failed
	// for.
	Duplicates []job.Duplicate
}

// historyLimit bounds the jobs that Jobs takes from the history.
const historyLimit = 1024

// Jobs returns the jobs that have not ended, in order of ID, and then those of
// the history, newest first, 1024 at most.
func (d *DDL) Jobs(ctx context.Context) ([]JobInfo, error) {
	var out []JobInfo
	for _, t := range d.tasks() {
		j := t.snapshot()
		if j.Ended() {
			continue
		}
		info := jobInfo(j)
		t.view.fill(&info, time.Now())
		out = append(out, info)
	}
	history, err := loadHistory(ctx, d.cat, historyLimit)
	if err != nil {
		return nil, err
	}
	for _, j := range history {
		// A job may have ended since, or its worker may not know yet that it has.
		out = slices.DeleteFunc(out, func(i JobInfo) bool { return i.ID == j.ID })
		out = append(out, jobInfo(j))
	}
	return out, nil
}

func jobInfo(j *job.Job) JobInfo {
	info := JobInfo{
		ID: j.ID, DB: j.DB, Table: j.Table, SchemaID: j.DBID, TableID: j.TableID,
		Type: j.Type.String(), SchemaState: j.SchemaState().String(), State: j.ShownState().String(),
		Query:      j.Query,
		CreateTime: timeOf(j.CreateTS), StartTime: timeOf(j.StartTS), EndTime: timeOf(j.EndTS),
		RowCount: j.RowCount, ErrorCount: j.ErrorCount, Duplicates: j.Duplicates,
	}
	if j.Error != nil {
		info.Error = j.Error.Message
	}
	if j.State == model.JobStateSynced {
		info.Percent = 100
	}
	if took := info.EndTime.Sub(info.StartTime).Seconds(); j.Ended() && took > 0 {
		info.RowsPerSecond = float64(j.RowCount) / took
	}
	return info
}

// timeOf is the wall time of a timestamp; its low 18 bits are a counter.
func timeOf(ts uint64) time.Time {
	if ts == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ts >> 18))
}

// view is what is shown of a running job beside its record.
type view struct {
	mu       sync.Mutex
	progress job.Progress
	// wait is what the job waits for; throttled until a time, and why.
	wait           string
	throttled      string
	throttledUntil time.Time
}

func (v *view) setWait(reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wait = reason
}

func (v *view) fill(info *JobInfo, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	info.RowCount = max(info.RowCount, v.progress.Rows())
	info.Percent = v.progress.Percent()
	info.RowsPerSecond = v.progress.RowsPerSecond()
	info.Remaining, info.HasRemaining = v.progress.Remaining(now)
	info.Stage = v.progress.Stage()
	info.WaitReason = v.wait
	if v.wait == "" && now.Before(v.throttledUntil) {
		info.WaitReason = "throttled: " + v.throttled
	}
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
	now := time.Now()
	switch e := e.(type) {
	case event.Progress:
		v.progress.SetRows(now, e.RowsDone, e.RowsTotal)
	case event.StageChanged:
		v.progress.SetStage(e.Stage)
	case event.Throttled:
		v.throttled, v.throttledUntil = e.Reason, now.Add(e.For)
	}
}
