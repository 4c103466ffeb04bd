package ddl

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ingest"
)

// JobInfo is what there is to know of a job.
type JobInfo struct {
	// ID names the job, RowID its row in TiDB's queue; they differ if somebody has
	// taken the row.
	ID, RowID int64
	// DB and Table are names in lower case, SchemaID and TableID their IDs.
	DB, Table         string
	SchemaID, TableID int64
	// Indexes are the names of the indexes that are built, with + between them.
	Indexes string
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
	// Step is the durable step, Stage what the job does in it, WaitReason what it
	// waits for.
	Step, Stage, WaitReason string
	// WaitSince is when the wait began, zero if the job waits for nothing.
	WaitSince time.Time
	// Blockers are the transactions that it waits for, in the order in which they are
	// ended if they are.
	Blockers []Blocker
	// Snapshot is S, 0 before it is taken. Compared and Repaired count comparisons of
	// unique indexes and repaired keys.
	Snapshot           uint64
	Compared, Repaired int64
	// Building is what a job that has not ended has of what all share; nil of others.
	Building *Building
	// Settings are the job's own. Priority is that in force.
	Settings job.Settings
	Priority string
	// Node runs the job, if it is one of several.
	Node string
	// ErrorCount is how often the job has failed, Error what it was undone for, without values of rows.
	ErrorCount int64
	Error      string
	// Duplicates are the rows with equal values that a new unique index has failed
	// for.
	Duplicates []job.Duplicate
}

// Ended says that the job is history.
func (i *JobInfo) Ended() bool { return !i.EndTime.IsZero() }

// Building is what a job has of what all share.
type Building struct {
	// Threads is the ceiling of the workers: the job's own or that of the system
	// variable.
	Threads int
	ingest.Held
}

// Jobs returns the jobs that have not ended, in order of ID, and then those of the
// history, newest first, 1024 at most.
func (d *DDL) Jobs(ctx context.Context) ([]JobInfo, error) {
	out, err := d.AllUnfinished(ctx)
	if err != nil {
		return nil, err
	}
	history, err := d.records.loadHistory(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range history {
		// A job may have ended since, or its goroutine may not know yet that it has.
		out = slices.DeleteFunc(out, func(i JobInfo) bool { return i.ID == r.ID })
		out = append(out, jobInfo(r))
	}
	return out, nil
}

// Unfinished returns the jobs that have not ended and that this node runs, in order of
// ID.
func (d *DDL) Unfinished() []JobInfo {
	var out []JobInfo
	for _, t := range d.running() {
		if info := t.info(time.Now()); !info.Ended() {
			out = append(out, info)
		}
	}
	return out
}

// info describes a job that runs.
func (t *task) info(now time.Time) JobInfo {
	r := t.shown.Load()
	info := jobInfo(r)
	if info.Ended() {
		return info
	}
	info.Settings = t.ownSettings()
	info.Priority = info.Settings.Priority
	if info.Priority == "" {
		info.Priority = config.PriorityLow
	}
	held := t.d.opts.Backfiller.Held(t.id)
	info.Building = &Building{Threads: info.Settings.Threads, Held: held}
	if info.Building.Threads == 0 {
		info.Building.Threads = int(t.d.opts.Globals.Int(config.ReorgWorkerCount))
	}
	t.view.fill(&info, r.Step, now)
	switch {
	case r.ShownState() == model.JobStatePaused:
		info.WaitReason = waitPaused
	case info.WaitReason == "":
		info.WaitReason = held.Wait
	}
	info.WaitSince = t.view.waitSince(info.WaitReason, now)
	// Nobody knows how long a job waits for what it does not have. Meanwhile it reads nothing.
	if info.WaitReason != "" && held.Workers == 0 {
		info.HasRemaining, info.RowsPerSecond = false, 0
	}
	return info
}

func jobInfo(r *job.Record) JobInfo {
	info := JobInfo{
		ID: r.ID, RowID: r.RowID, DB: r.DB, Table: r.Table, SchemaID: r.DBID, TableID: r.TableID, Indexes: indexNames(r),
		Type: r.Type.String(), SchemaState: r.SchemaState().String(), State: r.ShownState().String(), Query: r.Query,
		CreateTime: timeOf(r.CreateTS), StartTime: timeOf(r.StartTS), EndTime: timeOf(r.EndTS),
		RowCount: r.RowCount, Step: string(r.Step), Snapshot: r.SnapshotTS, Compared: r.Compared, Repaired: r.Repaired,
		ErrorCount: r.ErrorCount, Duplicates: r.Duplicates, Node: nodeOf(r.Owner),
	}
	if e := r.ErrorForAll(); e != nil {
		info.Error = e.GetMsg()
	}
	if r.State == model.JobStateSynced {
		info.Percent = 100
	}
	return info
}

// indexNames are the names of the indexes that a job builds, as TiDB's metrics have them.
func indexNames(r *job.Record) string {
	names := make([]string, len(r.Indexes))
	for i, index := range r.Indexes {
		names[i] = index.IndexName.O
	}
	return strings.Join(names, "+")
}

func timeOf(ts uint64) time.Time {
	if ts == 0 {
		return time.Time{}
	}
	return oracle.GetTimeFromTS(ts)
}
