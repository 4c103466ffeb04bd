package status

import (
	"context"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/ddl/session"
	"fastddl/ingest"
)

// JobInfo describes a job.
type JobInfo struct {
	// ID names the job, RowID its row in TiDB's queue; they differ if the
	// row was taken.
	ID, RowID int64
	// DB and Table are names in lower case, SchemaID and TableID their IDs.
	DB, Table         string
	SchemaID, TableID int64
	// Indexes are the names of the indexes that are built, with + between them.
	Indexes string
	// Type, SchemaState and State are named as TiDB names them.
	Type, SchemaState, State string
	Query                    string
	// SubmitKey is what the client has given the statement; empty if it has none.
	SubmitKey string

	// CreateTime, StartTime and EndTime are zero before the job is created, started or ended.
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
	// RemainingReason is why Remaining has become longer a moment ago; empty if it has not.
	RemainingReason string
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
	// Client executed the statement.
	Client job.Client
	// History is how the job went so far.
	job.History
	// Restarts is how often the job has begun anew, because it was parked and held garbage collection for too long.
	Restarts int64
	// Building is what a job that has not ended has of what all share; nil of others.
	Building *Building
	// Settings are the job's own. Priority is that in force.
	Settings job.Settings
	Priority string
	// Verify is config.VerifyAuto or config.VerifyFull; empty is full.
	Verify string
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
	ingest.Allocation
}

// Describe describes a job by its record.
func Describe(r *job.Record) JobInfo {
	info := JobInfo{
		ID: r.ID, RowID: r.RowID, DB: r.DB, Table: r.Table, SchemaID: r.DBID, TableID: r.TableID, Indexes: IndexNames(r),
		Type: r.Type.String(), SchemaState: r.SchemaState().String(), State: r.ShownState().String(), Query: r.Query,
		CreateTime: timeOf(r.CreateTS), StartTime: timeOf(r.StartTS), EndTime: timeOf(r.EndTS),
		RowCount: r.RowCount, Step: string(r.Step), Snapshot: r.SnapshotTS, Compared: r.Compared, Repaired: r.Repaired,
		ErrorCount: r.ErrorCount, Duplicates: r.Duplicates, Node: member.NodeOf(r.Owner), Verify: r.Verify, History: r.History, Client: r.Client,
		Restarts: r.Restarts, SubmitKey: r.SubmitKey,
	}
	if e := r.ErrorForAll(); e != nil {
		info.Error = e.GetMsg()
	}
	if r.State == model.JobStateSynced {
		info.Percent = 100
	}
	return info
}

// IndexNames are the names of the indexes that a job builds, as TiDB's metrics have them.
func IndexNames(r *job.Record) string {
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

// FillElsewhere completes what is known of a job that another node runs.
func (r *Tables) FillElsewhere(ctx context.Context, info *JobInfo) error {
	info.Priority = info.Settings.Priority
	if info.Priority == "" {
		info.Priority = config.PriorityLow
	}
	if err := r.fillHistory(ctx, info); err != nil {
		return err
	}
	rows, err := r.Sessions.Query(ctx, `SELECT stage, wait_reason, row_count, percent, rows_per_second, eta_seconds
		FROM mysql.fastddl_ddl_jobs WHERE job_id = %?`, info.ID)
	if err != nil || len(rows) == 0 {
		return err
	}
	row := rows[0]
	info.Stage, info.WaitReason = session.TextAt(row, 0), session.TextAt(row, 1)
	if !row.IsNull(2) {
		info.RowCount = max(info.RowCount, row.GetInt64(2))
	}
	if !row.IsNull(3) {
		info.Percent = row.GetFloat64(3)
	}
	if !row.IsNull(4) {
		info.RowsPerSecond = row.GetFloat64(4)
	}
	if !row.IsNull(5) {
		info.HasRemaining, info.Remaining = true, time.Duration(row.GetFloat64(5)*float64(time.Second))
	}
	return nil
}
