package ddl

import (
	"context"
	"time"

	"fastddl/config"
)

// elsewhereInterval is how often a session looks whether its job, which another node
// runs, has ended.
const elsewhereInterval = 100 * time.Millisecond

// AllUnfinished returns the jobs of all nodes that have not ended, in order of ID. Of
// those that this node does not run it knows what was written down every second.
func (d *DDL) AllUnfinished(ctx context.Context) ([]JobInfo, error) {
	jobs, err := d.records.loadJobs(ctx)
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
