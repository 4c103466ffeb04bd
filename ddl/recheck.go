package ddl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/backfill/encode"
	"fastddl/ddl/verdict"
	"fastddl/event"
	"fastddl/ingest"
)

// maxRechecks is how often a job takes another S because the rows that had equal
// values at S had them no more. Then the values are handed around so much that the
// user should know.
const maxRechecks = 3

// recheck returns the error of a backfill, unless it is of duplicates that are
// gone: then the job goes back to before S.
func (t *task) recheck(ctx context.Context, task encode.Task, err error) (outcome, error) {
	var dup *verdict.DuplicatesError
	if !errors.As(err, &dup) || t.rechecks >= maxRechecks {
		return outcome{}, err
	}
	still, readErr := t.d.stillDuplicate(ctx, task, dup.Groups)
	if errors.As(readErr, new(*encode.RowError)) { // one of the rows has no entry by now; the others are at fault as before
		return outcome{}, err
	}
	if readErr != nil {
		return outcome{}, fmt.Errorf("look at duplicates again: %w", readErr)
	}
	if still {
		return outcome{}, err
	}
	t.rechecks++
	t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: "snapshot", Attempt: t.rechecks, Err: err})
	return t.forgetSnapshot(ctx)
}

// stillDuplicate says whether in one of the groups two rows have the same entry now.
func (d *DDL) stillDuplicate(ctx context.Context, task encode.Task, groups []*ingest.DuplicateGroup) (still bool, err error) {
	encoder, err := encode.NewRowEncoder(task)
	if err != nil {
		return false, err
	}
	now, err := d.opts.Builds.CurrentTS(ctx)
	if err != nil {
		return false, err
	}
	get, end, err := verdict.GetAt(ctx, d.opts.Builds, now)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, g := range groups {
		if g.Rows > int64(len(g.Values)) {
			return true, nil // not all of its rows are known
		}
		holders := 0
		for _, value := range g.Values {
			has, err := hasEntry(get, encoder, g, value)
			if dup := new(ingest.DuplicateError); errors.As(err, &dup) {
				return true, nil // the row gives one entry twice
			}
			if err != nil {
				return false, err
			}
			if has {
				holders++
			}
		}
		if holders > 1 {
			return true, nil
		}
	}
	return false, nil
}

// hasEntry says whether the row that an entry of g names gives that entry.
func hasEntry(get verdict.Getter, encoder *encode.RowEncoder, g *ingest.DuplicateGroup, value []byte) (bool, error) {
	handle, err := tablecodec.DecodeHandleInIndexValue(value)
	if err != nil {
		return false, fmt.Errorf("decode index value %x: %w", value, err)
	}
	key := verdict.RecordKey(g.Key, handle)
	row, err := get(key)
	if err != nil || row == nil {
		return false, err
	}
	values, err := verdict.EntriesAt(encoder, key, row, g.IndexID, g.Key)
	return len(values) > 0, err
}
