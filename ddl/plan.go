package ddl

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/sessionctx/variable"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/kv"
)

// sampleShare is the part of a build's entries that is read back if that is proven, as package backfill chooses it.
const sampleShare = 1.0 / 32

// plan returns what a build of the job will do, for its estimate.
func (t *task) plan(r *job.Record) job.Plan {
	plan := job.Plan{Verify: 1, Prior: t.prior, End: t.endInWindow}
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

// endInWindow returns when work of that length ends which is done in the job's window only.
func (t *task) endInWindow(now time.Time, work time.Duration) time.Time {
	window, err := job.ParseWindow(t.ownSettings().Window)
	if err != nil { // it does not work at all, and says so
		return now.Add(work)
	}
	return window.End(now, work)
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
	t.view.Resume(h, t.d.opts.Foreground)
	if r.StartTS == 0 {
		return
	}
	_ = t.d.contained("the history of a job", func() error {
		points, err := t.d.reports.Points(ctx, t.id)
		t.d.reports.Unreported(err)
		t.view.ResumePoints(points)
		return nil
	})
}

// clientOf returns who executes a statement.
func clientOf(vars *variable.SessionVars) job.Client {
	c := job.Client{ConnID: vars.ConnectionID}
	if vars.User != nil {
		c.User = vars.User.LoginString()
	}
	c.Program = session.Shortened(session.ProgramOf(vars), maxProgramBytes)
	return c
}

// maxProgramBytes is how much is kept of a program's name.
const maxProgramBytes = 128

// verifiedBy says how a build was verified.
func verifiedBy(result backfill.Result) string {
	verified := job.VerifiedFull
	switch {
	case result.Deferred:
		verified = job.VerifiedCompare
	case result.Sampled:
		verified = job.VerifiedSample
	}
	if result.Rebuilt {
		verified += job.Rebuilt
	}
	return verified
}

// measureIndexes keeps the size of the indexes of a job that has made them public. It may not be known.
func (t *task) measureIndexes(ctx context.Context, r *job.Record) error {
	if r.RollingBack() || len(r.IndexIDs) == 0 {
		return nil
	}
	task, err := t.d.buildTask(ctx, r, r.SnapshotTS)
	if err != nil {
		return err
	}
	var size int64
	for _, keys := range indexRanges(r.TableID, task.Table, r.IndexIDs) {
		bytes, err := t.d.storedBytes(ctx, keys)
		if err != nil {
			return fmt.Errorf("size of the index: %w", err)
		}
		size += bytes
	}
	t.view.SetIndexBytes(size)
	return nil
}
