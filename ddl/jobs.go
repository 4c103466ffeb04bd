package ddl

import (
	"context"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/config"
	"fastddl/ddl/records"
	"fastddl/ddl/status"
	"fastddl/event"
)

// Jobs returns the jobs that have not ended, in order of ID, and then those of the
// history, newest first, 1024 at most.
func (d *DDL) Jobs(ctx context.Context) ([]status.JobInfo, error) {
	out, err := d.AllUnfinished(ctx)
	if err != nil {
		return nil, err
	}
	history, err := d.records.History(ctx, records.MaxShownHistory)
	if err != nil {
		return nil, err
	}
	for _, r := range history {
		// A job may have ended since, or its goroutine may not know yet that it has.
		out = slices.DeleteFunc(out, func(i status.JobInfo) bool { return i.ID == r.ID })
		out = append(out, status.Describe(r))
	}
	return out, nil
}

// Unfinished returns the jobs that have not ended and that this node runs, in order of
// ID.
func (d *DDL) Unfinished() []status.JobInfo {
	var out []status.JobInfo
	for _, t := range d.running() {
		if info := t.info(time.Now()); !info.Ended() {
			out = append(out, info)
		}
	}
	return out
}

// WaitedForBy returns the job that the statement of a connection waits for here; ok is false if there is none.
func (d *DDL) WaitedForBy(connID uint64) (info status.JobInfo, ok bool) {
	t, ok := d.statements.Load(connID)
	if !ok {
		return status.JobInfo{}, false
	}
	return t.(*task).info(time.Now()), true
}

// info describes a job that runs.
func (t *task) info(now time.Time) status.JobInfo {
	r := t.shown.Load()
	info := status.Describe(r)
	if info.Ended() {
		return info
	}
	info.Settings = t.ownSettings()
	info.Priority = info.Settings.Priority
	if info.Priority == "" {
		info.Priority = config.PriorityLow
	}
	allocation := t.d.opts.Backfiller.Allocation(t.id)
	info.Building = &status.Building{Threads: info.Settings.Threads, Allocation: allocation}
	if info.Building.Threads == 0 {
		info.Building.Threads = int(t.d.opts.Globals.Int(config.ReorgWorkerCount))
	}
	t.view.Fill(&info, r.Step, now)
	switch {
	case r.ShownState() == model.JobStatePaused:
		info.WaitReason = status.WaitPaused + r.BeginsAnew()
	case info.WaitReason == "":
		info.WaitReason = allocation.Wait
	}
	info.WaitSince = t.view.WaitSince(info.WaitReason, now)
	// It is not known how long a job waits for what it does not have. Meanwhile it reads nothing.
	if info.WaitReason != "" && allocation.Workers == 0 {
		info.HasRemaining, info.RowsPerSecond = false, 0
	}
	return info
}

// AllUnfinished returns the jobs of all nodes that have not ended, in order of ID. Of
// those that this node does not run it knows what was written down every second.
func (d *DDL) AllUnfinished(ctx context.Context) ([]status.JobInfo, error) {
	jobs, err := d.records.Load(ctx)
	if err != nil {
		return nil, err
	}
	var out []status.JobInfo
	for _, j := range jobs {
		if t := d.lookup(j.Record.ID); t != nil {
			if info := t.info(time.Now()); !info.Ended() {
				out = append(out, info)
			}
			continue
		}
		if j.Record.Unreadable != nil {
			out = append(out, d.unreadableInfo(ctx, j.Record))
			continue
		}
		info := status.Describe(j.Record)
		if j.Record.Later() {
			info = d.laterInfo(ctx, j.Record)
		}
		info.Settings = j.Settings
		d.reports.Unreported(d.reports.FillElsewhere(ctx, &info))
		if d.leftToLater(ctx, j.Record) {
			info.WaitReason = "a later version of fastddl, which has begun it: " + formats(j.Record)
		}
		out = append(out, info)
	}
	return out, nil
}

// onEvent keeps the views up to date.
func (d *DDL) onEvent(e event.Event) {
	if v, ok := d.views.Load(e.JobID()); ok {
		v.(*status.View).OnEvent(e)
	}
}
