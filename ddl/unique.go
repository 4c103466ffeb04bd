package ddl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/catalog"
	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/table"
)

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
	return t.holding(ctx, j.SnapshotTS, func(ctx context.Context) error {
		if err := t.verifyUnique(ctx, j); err != nil {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.write(ctx, to, func(context.Context, *catalog.Mutation, *job.Job) error { return nil })
	})
}

func (t *task) verifyUnique(ctx context.Context, j *job.Job) error {
	tbl, ok := t.d.cat.Current().TableByID(j.TableID)
	if !ok {
		return job.Permanent(fmt.Errorf("table %d of job %d is gone", j.TableID, j.ID))
	}
	var groups []*ingest.DuplicateGroup
	for _, idx := range tbl.Info.Indices {
		if !idx.Unique || !slices.Contains(j.Elements.AddIndexes, idx.ID) {
			continue
		}
		var err error
		if groups, err = verifyMarkers(ctx, t.d.cat.Store(), tbl.Info, idx.ID, j.SnapshotTS, groups); err != nil {
			return err
		}
	}
	if len(groups) > 0 {
		return duplicateEntries(tbl.Info, locationOf(j.TimeZone), groups)
	}
	return nil
}

// verifyMarkers appends the duplicates that markers of the index tell of to
// groups, in order of keys, until there are ingest.MaxDuplicateGroups.
func verifyMarkers(ctx context.Context, store kv.Store, tbl *model.TableInfo, indexID int64, snapshotTS uint64,
	groups []*ingest.DuplicateGroup) (_ []*ingest.DuplicateGroup, err error) {
	now, err := store.CurrentTS(ctx)
	if err != nil {
		return nil, err
	}
	current, err := store.Snapshot(ctx, now)
	if err != nil {
		return nil, err
	}
	defer func() { err = errs.Also(err, current.Close()) }()
	atS, err := store.Snapshot(ctx, snapshotTS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errs.Also(err, atS.Close()) }()

	it, err := current.Iter(table.MarkerRange(tbl.ID, indexID))
	if err != nil {
		return nil, err
	}
	defer func() { err = errs.Also(err, it.Close()) }()
	v := markerVerifier{store: store, atS: atS, tableID: tbl.ID, indexID: indexID, groups: groups}
	for it.Valid() && len(v.groups) <= ingest.MaxDuplicateGroups {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := v.verify(ctx, it.Key(), it.Value()); err != nil {
			return nil, err
		}
		if err := it.Next(); err != nil {
			return nil, err
		}
	}
	return v.groups[:min(len(v.groups), ingest.MaxDuplicateGroups)], nil
}

// markerVerifier gathers the duplicates that the markers of an index tell of.
type markerVerifier struct {
	store            kv.Store
	atS              kv.Snapshot
	tableID, indexID int64
	groups           []*ingest.DuplicateGroup
}

func (v *markerVerifier) verify(ctx context.Context, marker, value []byte) error {
	_, err := v.atS.Get(ctx, marker)
	if !errors.Is(err, kv.ErrNotExist) {
		return err
	}
	key, checkTS, err := table.DecodeMarker(v.tableID, v.indexID, marker)
	if err != nil {
		return err
	}
	existing, err := getAt(ctx, v.store, key, max(checkTS, v.atS.TS()))
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
	return v.add(key, existing, value)
}

// add adds two rows with one key. Several markers of a key follow each other.
func (v *markerVerifier) add(key []byte, values ...[]byte) error {
	if n := len(v.groups); n == 0 || v.groups[n-1].IndexID != v.indexID || !bytes.Equal(v.groups[n-1].Key, key) {
		v.groups = append(v.groups, ingest.NewDuplicateGroup(v.indexID, key, values...))
		return nil
	}
	g := v.groups[len(v.groups)-1]
	for _, value := range values {
		known, err := hasRow(g, value)
		if err != nil {
			return err
		}
		if !known {
			g.Add(value)
		}
	}
	return nil
}

// hasRow says that the group names the row of the entry value, perhaps by
// another value: values that differ may have one key.
func hasRow(g *ingest.DuplicateGroup, value []byte) (bool, error) {
	for _, v := range g.Values {
		if same, err := sameRow(v, value); err != nil || same {
			return same, err
		}
	}
	return false, nil
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
