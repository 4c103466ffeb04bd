package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
)

// errCannotCancel is TiDB's error for an import that has ended, or is past the swap.
var errCannotCancel = exeerrors.ErrLoadDataInvalidOperation

// Shown is an import as SHOW IMPORT JOBS shows it.
type Shown struct {
	*importer.JobInfo
	// Rows is the number of rows that a running import has read, -1 of others.
	Rows int64
}

// Find returns TiDB's description of an import that the user may see: one of his own, or any with SUPER. Its times are those of a zone.
func (j *Jobs) Find(ctx context.Context, importID int64, user string, super bool, zone *time.Location) (shown Shown, err error) {
	err = j.sessions.WithContext(func(sctx sessionctx.Context) error {
		if shown.JobInfo, err = importer.GetJob(ctx, sctx.GetSQLExecutor(), importID, user, super); err != nil {
			return err
		}
		return inZone(shown.JobInfo, sctx.GetSessionVars().Location(), zone)
	})
	if err != nil {
		return Shown{}, err
	}
	return j.show(shown.JobInfo), nil
}

// List returns all imports that the user may see. Their times are those of a zone.
func (j *Jobs) List(ctx context.Context, user string, super bool, zone *time.Location) (all []Shown, err error) {
	err = j.sessions.WithContext(func(sctx sessionctx.Context) error {
		infos, err := importer.GetAllViewableJobs(ctx, sctx.GetSQLExecutor(), user, super)
		if err != nil {
			return err
		}
		for _, info := range infos {
			if err := inZone(info, sctx.GetSessionVars().Location(), zone); err != nil {
				return err
			}
			all = append(all, j.show(info))
		}
		return nil
	})
	return all, err
}

// inZone changes the times of an import, which a session of TiDB's has read in its zone, to those of another.
func inZone(info *importer.JobInfo, from, to *time.Location) error {
	for _, t := range []*types.Time{&info.CreateTime, &info.StartTime, &info.EndTime} {
		if err := t.ConvertTimeZone(from, to); err != nil {
			return fmt.Errorf("import %d: %w", info.ID, err)
		}
	}
	return nil
}

// show adds to TiDB's description of an import how far it is: the phase, rows, and in place of the result what is left.
func (j *Jobs) show(info *importer.JobInfo) Shown {
	s := Shown{info, -1}
	if info.Summary != nil || !info.CanCancel() {
		return s
	}
	t := j.find(func(r *Record) bool { return r.ImportID == info.ID })
	if t == nil {
		return s
	}
	now := t.progress()
	s.Rows = now.Rows
	if now.Verifying && info.Status == importer.JobStatusRunning {
		s.Step = importer.JobStepValidating
	}
	if s.ErrorMessage == "" {
		s.ErrorMessage = t.describe(now)
	}
	return s
}

// Cancel cancels an import that the user may see, and waits until it is undone.
func (j *Jobs) Cancel(ctx context.Context, importID int64, user string, super bool) error {
	info, err := j.Find(ctx, importID, user, super, time.UTC)
	if err != nil {
		return err
	}
	t := j.find(func(r *Record) bool { return r.ImportID == importID })
	if t == nil || !info.CanCancel() {
		return errCannotCancel.FastGenByArgs("CANCEL")
	}
	return j.cancelAndWait(ctx, t)
}

func (j *Jobs) cancelAndWait(ctx context.Context, t *task) error {
	if err := t.cancel(ctx); err != nil {
		return err
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Owns says that a job of TiDB's queue is an import that has not ended.
func (j *Jobs) Owns(rowID int64) bool {
	return j.find(func(r *Record) bool { return r.Import.RowID == rowID }) != nil
}

// CancelRow cancels the import with a row in TiDB's queue, and waits until it is undone.
func (j *Jobs) CancelRow(ctx context.Context, rowID int64) error {
	t := j.find(func(r *Record) bool { return r.Import.RowID == rowID })
	if t == nil {
		return errCannotCancel.FastGenByArgs("CANCEL")
	}
	return j.cancelAndWait(ctx, t)
}

// Unfinished is an import that has not ended.
type Unfinished struct {
	// RowID is the import's in TiDB's queue, ImportID that in SHOW IMPORT JOBS; 0 of one from a query.
	RowID, ImportID int64
	DB, Table       string
	Step            Step
	Progress        Progress
}

// Unfinished are the imports that have not ended, in order of their beginnings.
func (j *Jobs) Unfinished() (all []Unfinished) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.tasks {
		r := t.record()
		all = append(all, Unfinished{RowID: t.rowID, ImportID: r.ImportID, DB: r.Import.DB, Table: r.Import.Table, Step: r.Step, Progress: t.progress()})
	}
	return all
}
