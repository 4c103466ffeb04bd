package jobs

import (
	"context"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
)

// errCannotCancel is TiDB's error for an import that has ended, or is past the swap.
var errCannotCancel = exeerrors.ErrLoadDataInvalidOperation

// Find returns TiDB's description of an import that the user may see: one of his own, or any with SUPER. The number of rows is -1 where it is
// not known.
func (j *Jobs) Find(ctx context.Context, importID int64, user string, super bool) (info *importer.JobInfo, rows int64, err error) {
	err = j.sessions.WithContext(func(sctx sessionctx.Context) error {
		info, err = importer.GetJob(ctx, sctx.GetSQLExecutor(), importID, user, super)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return info, j.importedRows(info), nil
}

// List returns all imports that the user may see, with their numbers of rows.
func (j *Jobs) List(ctx context.Context, user string, super bool) (infos []*importer.JobInfo, rows []int64, err error) {
	err = j.sessions.WithContext(func(sctx sessionctx.Context) error {
		infos, err = importer.GetAllViewableJobs(ctx, sctx.GetSQLExecutor(), user, super)
		return err
	})
	for _, info := range infos {
		rows = append(rows, j.importedRows(info))
	}
	return infos, rows, err
}

// importedRows is the number of rows that a running import has read, -1 of others.
func (j *Jobs) importedRows(info *importer.JobInfo) int64 {
	if info.Summary != nil || !info.CanCancel() {
		return -1
	}
	t := j.find(func(r *Record) bool { return r.ImportID == info.ID })
	if t == nil {
		return -1
	}
	if rows := t.rows.Load(); rows != nil {
		return (*rows)()
	}
	return 0
}

// Cancel cancels an import that the user may see, and waits until it is undone.
func (j *Jobs) Cancel(ctx context.Context, importID int64, user string, super bool) error {
	info, _, err := j.Find(ctx, importID, user, super)
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

// Shown is what a row of an import in TiDB's queue stands for.
type Shown struct {
	ImportID int64
	Step     Step
	Rows     int64
}

// Unfinished are the imports that have not ended, by their rows in TiDB's queue.
func (j *Jobs) Unfinished() map[int64]Shown {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[int64]Shown, len(j.tasks))
	for _, t := range j.tasks {
		r := t.record()
		s := Shown{ImportID: r.ImportID, Step: r.Step, Rows: r.Rows}
		if rows := t.rows.Load(); rows != nil && s.Rows == 0 {
			s.Rows = (*rows)()
		}
		all[r.Import.RowID] = s
	}
	return all
}
