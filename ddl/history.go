package ddl

import (
	"context"
	"time"

	"fastddl/config"
	"fastddl/ddl/records"
	"fastddl/ddl/status"
)

const (
	// trimInterval is how often the history is trimmed beside the ends of jobs and changes of the limit: other nodes end jobs, too, and
	// what was spared for its grace remains.
	trimInterval = time.Minute
	// historyGrace is for how long a job of a cluster stays in the history in any case. A statement of another node that waits for it
	// looks for its result there, many times a second.
	historyGrace = 2 * time.Minute
	// fewJobs is the limit up to which the history is trimmed after each job; above, it may have one percent more.
	fewJobs = 128
)

// trimHistory deletes the oldest jobs from all tables of the history.
func (d *DDL) trimHistory(ctx context.Context) error {
	trim := records.Trim{Keep: d.opts.Globals.Int(config.HistoryLimit), Ends: status.EndsTable, Others: status.HistoryTables}
	if d.clustered() {
		trim.GraceSeconds = int64(historyGrace.Seconds())
	}
	return d.records.TrimHistory(ctx, trim)
}

// keepHistoryShort is called when a job has ended.
func (d *DDL) keepHistoryShort() {
	every := max(1, d.opts.Globals.Int(config.HistoryLimit)/fewJobs)
	if d.ends.Add(1)%every == 0 {
		d.wantTrim()
	}
}

// wantTrim has the history trimmed soon.
func (d *DDL) wantTrim() {
	select {
	case d.trim <- struct{}{}:
	default: // it is wanted already
	}
}

// keepHistory trims the history until Close.
func (d *DDL) keepHistory() {
	cancel := d.opts.Globals.OnChange(func(name, _ string) {
		if name == config.HistoryLimit {
			d.wantTrim()
		}
	})
	defer cancel()
	tick := time.NewTicker(trimInterval)
	defer tick.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-d.trim:
		case <-tick.C:
		}
		if err := d.contained("the trimming of the history", func() error { return d.trimHistory(d.ctx) }); d.ctx.Err() == nil {
			d.reports.Unreported(err)
		}
	}
}
