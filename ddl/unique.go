package ddl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/catalog"
	"fastddl/ddl/job"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/table"
)

// duplicateEntry is the error (1062) of a job whose unique index has two rows
// with the same values.
func duplicateEntry(tbl *model.TableInfo, indexID int64, key, value []byte) error {
	for _, idx := range tbl.Indices {
		if idx.ID != indexID {
			continue
		}
		text, err := table.Of(&catalog.Table{Info: tbl}).EntryText(idx, key, value)
		if err != nil {
			return err
		}
		return tkv.ErrKeyExists.FastGenByArgs(text, tbl.Name.O+"."+idx.Name.O)
	}
	return fmt.Errorf("duplicate entry in index %d, which table %s has not", indexID, tbl.Name.O)
}

// checkUnique looks at every put into the job's unique indexes that was made
// without seeing all rows (see package table's markers). It runs when the
// indexes are complete and nobody leaves markers any more.
//
// A marker says that a transaction put key K for a row after it had looked for K
// at c, its start. A marker committed at or before S needs no second look: the
// transaction's row is one of those at S, whose keys the backfill has found to
// differ. Of a later one, the entry of K at max(c, S) must be absent or the same
// row's. If c is at or after S, that is the index as the transaction should have
// seen it, and conflict detection on K has kept it so until the commit. If c is
// before S, nobody has written K between c and the commit, which is after S, so
// a row that has K at S has it still.
func (t *task) checkUnique(ctx context.Context, to job.Step) error {
	j := t.snapshot()
	tbl, ok := t.d.cat.Current().TableByID(j.TableID)
	if !ok {
		return job.Permanent(fmt.Errorf("table %d of job %d is gone", j.TableID, j.ID))
	}
	for _, idx := range tbl.Info.Indices {
		if !idx.Unique || !slices.Contains(j.Elements.AddIndexes, idx.ID) {
			continue
		}
		if err := verifyMarkers(ctx, t.d.cat.Store(), tbl.Info, idx.ID, j.SnapshotTS); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(ctx, t.machine.After(to))
}

// verifyMarkers returns a 1062 error if a marker of the index tells of a
// duplicate.
func verifyMarkers(ctx context.Context, store kv.Store, tbl *model.TableInfo, indexID int64, snapshotTS uint64) (err error) {
	now, err := store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	current, err := store.Snapshot(ctx, now)
	if err != nil {
		return err
	}
	defer func() { err = errs.Also(err, current.Close()) }()
	atS, err := store.Snapshot(ctx, snapshotTS)
	if err != nil {
		return err
	}
	defer func() { err = errs.Also(err, atS.Close()) }()

	it, err := current.Iter(table.MarkerRange(tbl.ID, indexID))
	if err != nil {
		return err
	}
	defer func() { err = errs.Also(err, it.Close()) }()
	for it.Valid() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := verifyMarker(ctx, store, atS, tbl, indexID, it.Key(), it.Value()); err != nil {
			return err
		}
		if err := it.Next(); err != nil {
			return err
		}
	}
	return nil
}

func verifyMarker(ctx context.Context, store kv.Store, atS kv.Snapshot, tbl *model.TableInfo, indexID int64, marker, value []byte) error {
	_, err := atS.Get(ctx, marker)
	if !errors.Is(err, kv.ErrNotExist) {
		return err
	}
	key, checkTS, err := table.DecodeMarker(tbl.ID, indexID, marker)
	if err != nil {
		return err
	}
	existing, err := getAt(ctx, store, key, max(checkTS, atS.TS()))
	if errors.Is(err, kv.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	same, err := sameRow(existing, value)
	if err != nil || same {
		return err
	}
	return duplicateEntry(tbl, indexID, key, value)
}

func getAt(ctx context.Context, store kv.Store, key []byte, ts uint64) (value []byte, err error) {
	snap, err := store.Snapshot(ctx, ts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errs.Also(err, snap.Close()) }()
	return snap.Get(ctx, key)
}

// sameRow says whether two values of a unique entry have the same handle.
func sameRow(a, b []byte) (bool, error) {
	ha, err := tablecodec.DecodeHandleInIndexValue(a)
	if err != nil {
		return false, fmt.Errorf("decode index value %x: %w", a, err)
	}
	hb, err := tablecodec.DecodeHandleInIndexValue(b)
	if err != nil {
		return false, fmt.Errorf("decode index value %x: %w", b, err)
	}
	return ha.Equal(hb), nil
}
