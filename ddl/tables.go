package ddl

import (
	"context"
	"fmt"
	"slices"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
)

// historySlack is how many jobs end before the history is cut again.
const historySlack = 8

// prepareTables makes our tables and shortens the history.
func (d *DDL) prepareTables(ctx context.Context) error {
	if err := d.reports.Make(ctx); err != nil {
		return err
	}
	d.reports.Unreported(d.reports.Widen(ctx))
	statements := append(slices.Clone(records.CreateTables), `DELETE FROM mysql.fastddl_ddl_blockers`) // no job waits yet
	if d.clustered() {
		statements = append(slices.Clone(records.CreateTables), dist.CreateSubtasks, records.CreateRequests, records.DeleteOldRequests, schema.DeleteTakenVersions)
	}
	for _, create := range statements {
		if _, err := d.sessions.Query(ctx, create); err != nil {
			return fmt.Errorf("create system table: %w", err)
		}
	}
	return d.shortenHistory(ctx)
}

// shortenHistory deletes the oldest jobs, also from the tables for people.
func (d *DDL) shortenHistory(ctx context.Context) error {
	return d.records.ShortenHistory(ctx, status.HistoryTables...)
}

// keepHistoryShort is called when a job has ended.
func (d *DDL) keepHistoryShort(ctx context.Context) {
	if d.ends.Add(1)%historySlack == 0 {
		d.reports.Unreported(d.contained("the cut of the history", func() error { return d.shortenHistory(ctx) }))
	}
}

// reportEnd reports the end of a job. An error of that does not keep the job from ending.
func (t *task) reportEnd(x *session.Txn, r *job.Record) {
	t.d.reports.Unreported(t.d.contained("the report of a job's end", func() error { return status.ReportEnd(x, r, t.ownSettings(), &t.view) }))
}
