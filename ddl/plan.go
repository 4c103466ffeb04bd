package ddl

import (
	"context"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/kv"
)

// sampleShare is the part of a build's entries that is read back if that is proven, as package backfill chooses it.
const sampleShare = 1.0 / 32

// plan returns what a build of the job will do, for its estimate.
func (t *task) plan(r *job.Record) job.Plan {
	plan := job.Plan{Verify: 1, Prior: t.prior}
	_, counts := t.d.opts.Builds.(kv.ScanCounter)
	_, sums := t.d.opts.Builds.(kv.Checksummer)
	_, findsChanges := t.d.opts.Builds.(kv.ChangeFinder)
	switch again := r.Differed || r.Leftovers; {
	case !again && r.Compare && sums && !findsChanges: // the comparison does it
		plan.Verify = 0
	case !again && counts && r.Verify == config.VerifyAuto:
		plan.Verify = sampleShare
	}
	if r.Compare && !findsChanges {
		plan.Compare = 1
	}
	return plan
}

// recallHistory begins with what the job has done under an earlier process or owner, and with what earlier builds have cost.
func (t *task) recallHistory(ctx context.Context) {
	r := t.shown.Load()
	h := r.History
	_ = t.d.contained("the history of a job", func() error {
		prior, err := t.d.reports.Prior(ctx)
		t.d.reports.Unreported(err)
		t.prior = prior
		if r.StartTS == 0 {
			return nil
		}
		reported, ok, err := t.d.reports.History(ctx, t.id)
		t.d.reports.Unreported(err)
		if ok && reported.Seconds() > h.Seconds() {
			h = reported
		}
		return nil
	})
	t.view.Resume(h)
}
