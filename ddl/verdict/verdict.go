package verdict

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pingcap/log"
	"go.uber.org/zap"

	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/invariants"
	"fastddl/kv"
)

// Of returns the error of a job whose rows do not let its indexes be built, as err, which was met at the task's snapshot,
// says: permanent, and with the rows. isVerdict is false if err is about something else. That rows cannot be listed
// changes nothing of the verdict.
func Of(ctx context.Context, store kv.Store, t encode.Task, err error) (verdict error, isVerdict bool) {
	return of(ctx, store, t, err, listed)
}

// OfSample is Of for rows of a sample, as a build would meet them: there is no job whose list of rows the error could name, and no others are
// looked for.
func OfSample(ctx context.Context, store kv.Store, t encode.Task, err error) (verdict error, isVerdict bool) {
	return of(ctx, store, t, err, sampled)
}

// origin is where the rows of a verdict come from.
type origin int

const (
	listed  origin = iota // a build, which lists them
	sampled               // a sample
)

func of(ctx context.Context, store kv.Store, t encode.Task, err error, from origin) (verdict error, isVerdict bool) {
	var dup *ingest.DuplicateError
	var bad *encode.RowError
	same := sameKeyOf(err)
	if same == nil && !errors.As(err, &dup) && !errors.As(err, &bad) {
		return nil, false
	}
	l := rowLister{table: t.Table, loc: locationOr(t.Location)}
	get, end, closed := GetAt(ctx, store, t.TS)
	switch {
	case errors.Is(closed, kv.ErrSnapshotTooOld): // the rows are looked at again, at another one
		return closed, true
	case closed != nil:
		l.get = func([]byte) ([]byte, error) { return nil, closed }
	default:
		l.get = get
		defer func() { _ = end() }() // all was read
	}
	var v *job.RowsError
	var unlisted error
	var groups []*ingest.DuplicateGroup
	switch {
	case same != nil:
		v, unlisted = l.sameKey(same, err)
	case dup != nil:
		groups = dup.Groups
		v, unlisted = l.duplicates(groups)
	default:
		var all *encode.RowError
		var failed error
		if from == listed {
			failed = listing(func() (err error) { all, err = compare.FindBadRows(ctx, store, t); return err })
		}
		if all == nil { // or the rows are later ones
			all = bad
		}
		if v, unlisted = l.badRows(all); unlisted == nil {
			unlisted = failed
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx), true
	}
	if unlisted != nil {
		var panicked *errs.PanicError
		if errors.As(unlisted, &panicked) {
			log.Error("panic while rows are listed", zap.Int64("job", t.JobID), zap.Any("panic", panicked.Value), zap.ByteString("stack", panicked.Stack))
		}
		log.Warn("not all rows that an index is not built for can be listed", zap.Int64("job", t.JobID), zap.Error(unlisted))
	}
	if from == listed {
		point(v, t.JobID, unlisted != nil)
	}
	if verdict = job.Permanent(v); groups != nil {
		verdict = NewDuplicatesError(verdict, groups)
	}
	return verdict, true
}

// point makes the error of a verdict say where its rows are.
func point(v *job.RowsError, jobID int64, unlisted bool) {
	where := fmt.Sprintf("rows listed in mysql.%s, job %d", ErrorsView, jobID)
	switch {
	case unlisted && len(v.Duplicates)+len(v.Rows) == 0:
		where = "the rows could not be listed: see the log"
	case unlisted:
		where += ", as far as they could be: see the log"
	}
	pointed := func(err error) error {
		e := job.ErrorOf(err)
		return job.WithText(e, fmt.Sprintf("%s (%s)", e.GetMsg(), where))
	}
	v.Err = pointed(v.Err)
	if v.Shown != nil {
		v.Shown = pointed(v.Shown)
	}
}

// listing calls fn and makes an error of a panic in it, but for an assertion that does not hold.
func listing(fn func() error) error {
	err := func() (err error) {
		defer errs.Contain(&err)
		return fn()
	}()
	var panicked *errs.PanicError
	if errors.As(err, &panicked) {
		if violation, ok := panicked.Value.(invariants.Violation); ok {
			panic(violation)
		}
	}
	return err
}

// cutText is a text that is not longer than a list of rows shows it.
func cutText(text string) string {
	if len(text) <= maxShownValue {
		return text
	}
	return strings.ToValidUTF8(text[:maxShownValue], "") + "..."
}

// ErrorsView is where people look for the rows that a job was undone for. It shows values of rows, and what names them by a
// clustered key, only to who may SELECT from their table; the server lets others not read the table that it is over.
const ErrorsView = "fastddl_ddl_errors"

// InPartition is what a list of duplicates says of a row's partition.
func InPartition(name string) string { return " in partition " + name }
