package ddl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/config"
	"fastddl/ddl/job"
)

// elsewhereInterval is how often a session looks whether its job, which another node
// runs, has ended.
const elsewhereInterval = 100 * time.Millisecond

// recordOf returns the record of a job that has not ended, by its ID or that of its row in
// TiDB's queue; nil if there is none.
func (d *DDL) recordOf(ctx context.Context, id int64) (*job.Record, error) {
	jobs, err := d.loadJobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.record.ID == id || j.record.RowID == id {
			return j.record, nil
		}
	}
	return nil, nil
}

// errDeleted is the error of a statement whose job is neither there nor in the history.
var errDeleted = errors.New("the record of the index build was deleted; nobody can say what has become of it")

// endElsewhere says whether a job has ended that another node was to end, and with what
// error. That its records cannot be read at the moment says nothing.
func (d *DDL) endElsewhere(ctx context.Context, id int64) (ended bool, err error) {
	// One statement, which sees one moment: the record moves from one table to the other.
	rows, err := d.sessions.query(ctx, `SELECT NULL FROM mysql.fastddl_ddl_record WHERE job_id = %?
		UNION ALL SELECT record FROM mysql.fastddl_ddl_record_history WHERE job_id = %?`, id, id)
	if err != nil {
		return false, nil
	}
	if len(rows) == 0 {
		return true, errDeleted
	}
	record := rows[len(rows)-1]
	if record.IsNull(0) {
		return false, nil
	}
	r, _, err := decodeRecord(record.GetBytes(0), nil)
	if err != nil {
		return true, fmt.Errorf("job %d has ended, and its result cannot be read: %w", id, err)
	}
	if r.Error != nil {
		return true, r.Error
	}
	return true, nil
}

// AllUnfinished returns the jobs of all nodes that have not ended, in order of ID. Of
// those that this node does not run it knows what was written down every second.
func (d *DDL) AllUnfinished(ctx context.Context) ([]JobInfo, error) {
	jobs, err := d.loadJobs(ctx)
	if err != nil {
		return nil, err
	}
	var out []JobInfo
	for _, j := range jobs {
		if t := d.lookup(j.record.ID); t != nil {
			if info := t.info(time.Now()); !info.Ended() {
				out = append(out, info)
			}
			continue
		}
		if j.record.Unreadable != nil {
			out = append(out, d.unreadableInfo(ctx, j.record))
			continue
		}
		info := jobInfo(j.record)
		if j.record.Later() {
			info = d.laterInfo(ctx, j.record)
		}
		info.Settings = j.settings
		d.unreported(d.fillElsewhere(ctx, &info))
		if d.leftToLater(ctx, j.record) {
			info.WaitReason = "a later version of fastddl, which has begun it: " + formats(j.record)
		}
		out = append(out, info)
	}
	return out, nil
}

// fillElsewhere completes what is known of a job that another node runs.
func (d *DDL) fillElsewhere(ctx context.Context, info *JobInfo) error {
	info.Priority = info.Settings.Priority
	if info.Priority == "" {
		info.Priority = config.PriorityLow
	}
	rows, err := d.sessions.query(ctx, `SELECT stage, wait_reason, row_count, percent, rows_per_second, eta_seconds
		FROM mysql.fastddl_ddl_jobs WHERE job_id = %?`, info.ID)
	if err != nil || len(rows) == 0 {
		return err
	}
	row := rows[0]
	info.Stage, info.WaitReason = textAt(row, 0), textAt(row, 1)
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

func textAt(row chunk.Row, i int) string {
	if row.IsNull(i) {
		return ""
	}
	return row.GetString(i)
}

// nodeOf is the node that a member of the cluster is the life of.
func nodeOf(member string) string {
	node, _, _ := strings.Cut(member, "/")
	return node
}
