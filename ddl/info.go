package ddl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ingest"
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
	// Stage is what the job does beside schema states, WaitReason what it waits
	// for.
	Stage, WaitReason string
	// Building is what there is to know of a job that builds indexes; nil of
	// others and of those that have ended.
	Building *Building
	// Settings are the job's own. Priority is that in force, empty if the job builds
	// no index.
	Settings job.Settings
	Priority string
	// ReorgType is how the job builds indexes, "ingest" or "txn"; empty if it does
	// not, or has not begun to.
	ReorgType string
	// ErrorCount is how often the job has failed, Error what it failed with.
	ErrorCount int64
	Error      string
	// Duplicates are the rows with equal values that a new unique index has failed
	// for.
	Duplicates []job.Duplicate
}

// Building is what a job that builds indexes has of what all share.
type Building struct {
	// Threads and BatchSize are the ceiling of the workers and the rows of a
	// transaction: the job's own or those of the system variables.
	Threads, BatchSize int
	ingest.Held
}

// historyLimit bounds the jobs that Jobs takes from the history.
const historyLimit = 1024

// Jobs returns the jobs that have not ended, in order of ID, and then those of
// the history, newest first, 1024 at most.
func (d *DDL) Jobs(ctx context.Context) ([]JobInfo, error) {
	out := d.unfinished()
	history, err := loadHistory(ctx, d.cat, historyLimit)
	if err != nil {
		return nil, err
	}
	for _, j := range history {
		// A job may have ended since, or its worker may not know yet that it has.
		out = slices.DeleteFunc(out, func(i JobInfo) bool { return i.ID == j.ID })
		out = append(out, jobInfo(j))
	}
	return out, d.addReclaims(ctx, out)
}

// unfinished returns the jobs that have not ended, in order of ID.
func (d *DDL) unfinished() []JobInfo {
	var tasks []*task
	var jobs []*job.Job
	for _, t := range d.tasks() {
		if j := t.snapshot(); !j.Ended() {
			tasks, jobs = append(tasks, t), append(jobs, j)
		}
	}
	now := time.Now()
	out := make([]JobInfo, len(jobs))
	for i, j := range jobs {
		out[i] = jobInfo(j)
		held := d.opts.Backfiller.Held(j.ID)
		if j.Backfills() {
			out[i].Building = d.building(j.Settings, held)
		}
		tasks[i].view.fill(&out[i], j.Step, now)
		out[i].WaitReason = waitReason(j, job.Ahead(jobs, i), out[i].WaitReason, held.Wait)
		// Nobody knows how long a job waits for what it does not have.
		if out[i].WaitReason != "" && held.Workers == 0 {
			out[i].HasRemaining = false
		}
	}
	return out
}

func (d *DDL) building(s job.Settings, held ingest.Held) *Building {
	b := &Building{Held: held, Threads: s.Threads, BatchSize: s.BatchSize}
	if b.Threads == 0 {
		b.Threads = int(d.opts.Globals.Int(config.ReorgWorkerCount))
	}
	if b.BatchSize == 0 {
		b.BatchSize = int(d.opts.Globals.Int(config.ReorgBatchSize))
	}
	if held.Workers == 0 { // its build does not run now
		b.WriteSpeed = lesserLimit(s.MaxWriteSpeed, d.opts.Globals.Int(config.ReorgMaxWriteSpeed))
	}
	return b
}

// lesserLimit is the lesser of two limits of which 0 is none.
func lesserLimit(a, b int64) int64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// addReclaims says of jobs that have ended whether their dropped data is still to
// be deleted.
func (d *DDL) addReclaims(ctx context.Context, jobs []JobInfo) error {
	ranges, err := loadDeleteRanges(ctx, d.cat)
	if err != nil || len(ranges) == 0 {
		return err
	}
	safePoint, err := d.cat.Store().GCSafePoint(ctx)
	if err != nil {
		return fmt.Errorf("read GC safe point: %w", err)
	}
	waits := make(map[int64]bool, len(ranges))
	for _, r := range ranges {
		waits[r.JobID] = waits[r.JobID] || r.TS >= safePoint
	}
	for i := range jobs {
		if wait, pending := waits[jobs[i].ID]; pending {
			jobs[i].Stage = stageReclaim
			if wait {
				jobs[i].WaitReason = waitForGC
			}
		}
	}
	return nil
}

func jobInfo(j *job.Job) JobInfo {
	info := JobInfo{
		ID: j.ID, DB: j.DB, Table: j.Table, SchemaID: j.DBID, TableID: j.TableID,
		Type: j.Type.String(), SchemaState: j.SchemaState().String(), State: j.ShownState().String(),
		Query:      j.Query,
		CreateTime: timeOf(j.CreateTS), StartTime: timeOf(j.StartTS), EndTime: timeOf(j.EndTS),
		RowCount: j.RowCount, ErrorCount: j.ErrorCount, Duplicates: j.Duplicates, Settings: j.Settings,
	}
	if j.SnapshotTS != 0 {
		info.ReorgType = "txn"
		if j.FastReorg {
			info.ReorgType = "ingest"
		}
	}
	if j.Backfills() {
		info.Priority = cmp.Or(j.Settings.Priority, config.PriorityLow)
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
