package ctl

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
)

// jobColumns are what is read of a build that is watched.
const jobColumns = "job_id, db_name, table_name, state, step, stage, percent, row_count, rows_per_second, eta_seconds, wait_reason, " +
	"workers, error, index_bytes, verified, TIMESTAMPDIFF(MICROSECOND, start_time, end_time) / 1e6 AS seconds, end_time IS NOT NULL AS ended"

// jobsTable shows the builds of those tables on which the user has a privilege.
const jobsTable = "performance_schema.fastddl_ddl_jobs"

// Job is a build as the server shows it.
type Job struct {
	ID                            int64
	DB, Table, State, Step, Stage string
	// Percent is that of the whole build. Rows are those read.
	Percent       float64
	Rows          int64
	RowsPerSecond float64
	ETA           sql.NullFloat64 // seconds
	WaitReason    string
	Workers       int64
	// Error is why it has failed, without values of rows.
	Error      string
	IndexBytes sql.NullInt64
	Verified   string
	// Seconds is how long it has taken; only of one that has ended.
	Seconds float64
	Ended   bool

	shown object
}

// The states of jobs, as TiDB names them.
var (
	statePaused      = model.JobStatePaused.String()
	statePausing     = model.JobStatePausing.String()
	stateSynced      = model.JobStateSynced.String()
	stateDone        = model.JobStateDone.String()
	stateCancelled   = model.JobStateCancelled.String()
	stateCancelling  = model.JobStateCancelling.String()
	stateRollingBack = model.JobStateRollingback.String()
)

// stepReady is the step of a build that waits for its publication.
const stepReady = "ready"

// Name is the table's name for people.
func (j *Job) Name() string { return j.DB + "." + j.Table }

// Published reports whether the indexes are public.
func (j *Job) Published() bool { return j.Ended && (j.State == stateSynced || j.State == stateDone) }

// cancelledText is how TiDB's error of a job that a user has cancelled begins.
var cancelledText = errno.MySQLErrName[errno.ErrCancelledDDLJob].Raw

// Cancelled reports whether a user has cancelled the build, and it is undone.
func (j *Job) Cancelled() bool {
	return j.Ended && (j.State == stateCancelled || strings.HasPrefix(j.Error, cancelledText))
}

// phase is what the build does, in a word.
func (j *Job) phase() string {
	switch {
	case j.Published():
		return "done"
	case j.State == statePaused || j.State == statePausing || j.State == stateCancelling || j.State == stateRollingBack || j.Ended:
		return j.State
	case j.Stage != "":
		return j.Stage
	case j.Step != "":
		return j.Step
	}
	return j.State
}

// takesLonger begins a reason that is not one for waiting, but for an estimate that has grown.
const takesLonger = "takes longer"

// note is what is said beside the bar.
func (j *Job) note() string {
	var parts []string
	if j.Rows > 0 {
		parts = append(parts, count(float64(j.Rows))+" rows")
	}
	if j.RowsPerSecond >= 1 && !j.Ended {
		parts = append(parts, count(j.RowsPerSecond)+"/s")
	}
	if j.ETA.Valid && !j.Ended {
		parts = append(parts, "ETA "+span(j.ETA.Float64))
	}
	switch {
	case j.WaitReason == "":
	case strings.HasPrefix(j.WaitReason, takesLonger):
		parts = append(parts, j.WaitReason)
	default:
		parts = append(parts, "waits: "+j.WaitReason)
	}
	return strings.Join(parts, ", ")
}

// findJobs returns the builds that a condition selects, the latest first.
func findJobs(ctx context.Context, db queryer, condition string, args ...any) ([]Job, error) {
	r, err := ask(ctx, db, "SELECT "+jobColumns+" FROM "+jobsTable+" WHERE "+condition+" ORDER BY job_id DESC", args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", jobsTable, err)
	}
	jobs := make([]Job, len(r.rows))
	for i, row := range r.rows {
		if jobs[i], err = readJob(row); err != nil {
			return nil, err
		}
		jobs[i].shown = object{r, i}
	}
	return jobs, nil
}

func readJob(row []sql.NullString) (j Job, err error) {
	var reader cellReader
	j = Job{
		ID: reader.integer(row[0]), DB: row[1].String, Table: row[2].String, State: row[3].String, Step: row[4].String, Stage: row[5].String,
		Percent: reader.float(row[6]), Rows: reader.integer(row[7]), RowsPerSecond: reader.float(row[8]), WaitReason: row[10].String,
		Workers: reader.integer(row[11]), Error: row[12].String, Verified: row[14].String, Seconds: reader.float(row[15]), Ended: row[16].String == "1",
	}
	j.ETA = sql.NullFloat64{Float64: reader.float(row[9]), Valid: row[9].Valid}
	j.IndexBytes = sql.NullInt64{Int64: reader.integer(row[13]), Valid: row[13].Valid}
	return j, reader.err
}

// cellReader reads numbers and keeps the first error.
type cellReader struct{ err error }

func (r *cellReader) integer(cell sql.NullString) (n int64) {
	if cell.Valid {
		r.scan(cell.String, &n)
	}
	return n
}

func (r *cellReader) float(cell sql.NullString) (f float64) {
	if cell.Valid {
		r.scan(cell.String, &f)
	}
	return f
}

func (r *cellReader) scan(text string, into any) {
	if _, err := fmt.Sscan(text, into); err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %q is not a number", jobsTable, text)
	}
}
