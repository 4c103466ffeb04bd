package ddl

import (
	"context"
	"fmt"
	"time"

	pingcaperrors "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"go.uber.org/zap"

	"fastddl/backfill/encode"
	"fastddl/backfill/survey"
	"fastddl/ddl/estimate"
	"fastddl/ddl/job"
)

const (
	// preflightTime bounds each part of the survey of a build that begins.
	preflightTime = 150 * time.Millisecond
	// ampleTimes is how many times the size of a table, and unflushed, which is what of it may not be in files yet, must have
	// room for each index that is not looked at more closely.
	ampleTimes = 16
	unflushed  = 64 << 20
	// amplePartitions is of how many partitions the size is asked for that.
	amplePartitions = 64
)

// Preflight returns the estimate of whether a build fits that is about to begin; nil if there is room in plenty. It costs a few
// milliseconds as a rule, and at most half a second. It says nothing of time, jobs and transactions.
func (d *DDL) Preflight(ctx context.Context, sctx sessionctx.Context, req Request) (*estimate.Estimate, error) {
	task, err := d.estimatedTask(ctx, sctx, req)
	if err != nil {
		return nil, err
	}
	if ample, err := d.ample(ctx, req, task); err != nil || ample {
		return nil, err
	}
	found, err := survey.Take(ctx, survey.Options{
		Store: d.opts.Builds, Seed: task.TS, PlanFor: preflightTime, SampleFor: preflightTime, CountFor: preflightTime,
	}, task)
	if err != nil {
		return nil, err
	}
	in := d.estimateInput(ctx, req, task, found)
	e := estimate.Of(in)
	return &e, nil
}

// Refuse returns an error if a build that is about to begin does not fit and that is enforced, and warns of it otherwise. A preflight that fails itself
// refuses nothing: the session gets a warning.
func (d *DDL) Refuse(ctx context.Context, sctx sessionctx.Context, req Request, enforce bool) error {
	var e *estimate.Estimate
	err := d.contained("the preflight of an index build", func() (err error) {
		e, err = d.Preflight(ctx, sctx, req)
		return err
	})
	warnings := sctx.GetSessionVars().StmtCtx
	switch {
	case err != nil:
		d.opts.Logger.Warn("the room for an index build cannot be checked; it begins", zap.String("table", req.Table.Name.O), zap.Error(err))
		warnings.AppendWarning(pingcaperrors.NewNoStackErrorf("the room for the index build could not be checked: %v", job.ErrorOf(err).GetMsg()))
	case e == nil:
	case e.Verdict == estimate.DoesNotFit && enforce:
		return dbterror.ErrIngestCheckEnvFailed.FastGenByArgs("the index build does not fit: " + e.Missing)
	case e.Verdict == estimate.DoesNotFit:
		warnings.AppendWarning(pingcaperrors.NewNoStackErrorf("the index build may not fit: %s", e.Missing))
	case e.Verdict == estimate.Unknown && enforce:
		warnings.AppendWarning(pingcaperrors.NewNoStackErrorf("whether the index build fits is not known: %s", e.Missing))
	}
	return nil
}

// ample says that there is room for any indexes of a table as large as it is.
func (d *DDL) ample(ctx context.Context, req Request, task encode.Task) (bool, error) {
	in := d.estimateInput(ctx, req, task, &survey.Survey{Indexes: make([]survey.Index, len(task.Indexes))})
	o := &in.Outlook
	if !in.Disks.Temp.Known || !in.Disks.Store.Known || o.LeastMemory > o.MemoryQuota/2 {
		return false, nil
	}
	for _, idx := range task.Indexes {
		if idx.MVIndex { // a row may have any number of entries
			return false, nil
		}
	}
	physicals := encode.PhysicalIDs(task.Table)
	asked := min(len(physicals), amplePartitions)
	var bytes uint64
	for i := range asked {
		ranges, err := d.opts.Builds.Ranges(ctx, encode.RecordRange(physicals[i*len(physicals)/asked]))
		if err != nil {
			return false, fmt.Errorf("size of table %s: %w", task.Table.Name.O, err)
		}
		for _, r := range ranges {
			bytes += r.Bytes
		}
	}
	bytes = bytes/uint64(asked)*uint64(len(physicals)) + unflushed
	need := int64(min(bytes, 1<<50)) * ampleTimes * int64(len(task.Indexes)) * int64(in.Disks.Replicas)
	return need <= in.Disks.Temp.Free-in.Disks.Temp.Kept && need <= in.Disks.Store.Free-in.Disks.Store.Kept, nil
}
