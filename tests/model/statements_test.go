package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/kv"
	"fastddl/table"
)

func copyMap(m map[string]write) map[string]write { return maps.Clone(m) }

func sameColumn(a, b *model.ColumnInfo) bool { return a.ID == b.ID }

// insert adds a row with the given id.
func (t *transaction) insert(ctx context.Context, id int64) error {
	if err := t.bind(); err != nil {
		return err
	}
	row, err := t.randomRow(id)
	if err != nil {
		return err
	}
	return t.add(ctx, row)
}

func (t *transaction) add(ctx context.Context, row []types.Datum) error {
	h, err := t.tbl.AddRecord(ctx, t.txn, row, table.AddOptions{RowID: t.node.rowID.Add(1)})
	if err != nil {
		return t.reasonable(err, row, nil)
	}
	t.wrote(h, row)
	return nil
}

func (t *transaction) update(ctx context.Context, h tkv.Handle, old, row []types.Datum) error {
	newHandle, err := t.tbl.UpdateRecord(ctx, t.txn, h, old, row)
	if err != nil {
		return t.reasonable(err, row, h)
	}
	t.removed(h)
	t.wrote(newHandle, row)
	return nil
}

func (t *transaction) remove(ctx context.Context, h tkv.Handle, old []types.Datum) error {
	t.removed(h)
	return t.tbl.RemoveRecord(ctx, t.txn, h, old)
}

// insertOrDelete is INSERT or, if the row is there, DELETE.
func (t *transaction) insertOrDelete(ctx context.Context) error {
	id := t.randomID()
	h, old, err := t.find(ctx, id)
	switch {
	case err != nil:
		return err
	case old == nil:
		return t.insert(ctx, id)
	}
	return t.remove(ctx, h, old)
}

// updateOne changes some columns of a row, but not its id.
func (t *transaction) updateOne(ctx context.Context) error { return t.change(ctx, false) }

// moveOne changes some columns of a row, and its id.
func (t *transaction) moveOne(ctx context.Context) error { return t.change(ctx, true) }

func (t *transaction) change(ctx context.Context, move bool) error {
	id := t.randomID()
	h, old, err := t.find(ctx, id)
	if err != nil || old == nil {
		return err
	}
	if move {
		id = t.randomID()
	}
	row, err := t.randomRow(id)
	if err != nil {
		return err
	}
	for i := 1; i < len(row); i++ {
		if t.rng.Intn(2) == 0 {
			row[i] = old[i]
		}
	}
	return t.update(ctx, h, old, row)
}

// swap exchanges the values of n, which may be unique, between two rows, by way
// of NULL.
func (t *transaction) swap(ctx context.Context) error {
	h1, row1, err := t.find(ctx, t.randomID())
	if err != nil || row1 == nil {
		return err
	}
	row1 = slices.Clone(row1)
	h2, row2, err := t.find(ctx, t.randomID())
	if err != nil || row2 == nil || h2.Equal(h1) {
		return err
	}
	n := model.FindColumnInfo(t.tbl.Columns(), "n").Offset
	without, with1, with2 := slices.Clone(row1), slices.Clone(row2), slices.Clone(row1)
	without[n].SetNull()
	with1[n], with2[n] = row1[n], row2[n]
	for _, u := range []struct {
		h        tkv.Handle
		old, new []types.Datum
	}{{h1, row1, without}, {h2, slices.Clone(row2), with1}, {h1, without, with2}} {
		if err := t.update(ctx, u.h, u.old, u.new); err != nil {
			return err
		}
	}
	return nil
}

// overlap gives two rows the same value of n and takes it from them again, in any
// order, until at most one has it. A unique index that is being built does not
// see that they both have it for a while.
func (t *transaction) overlap(ctx context.Context) error {
	var handles [2]tkv.Handle
	var rows [2][]types.Datum
	for i := range rows {
		h, row, err := t.find(ctx, t.randomID())
		if err != nil || row == nil {
			return err
		}
		handles[i], rows[i] = h, slices.Clone(row)
	}
	n := model.FindColumnInfo(t.tbl.Columns(), "n").Offset
	value := rows[0][n]
	if value.IsNull() || handles[0].Equal(handles[1]) {
		return nil
	}
	has := [2]bool{true, rows[1][n].GetInt64() == value.GetInt64() && !rows[1][n].IsNull()}
	for steps := 1 + t.rng.Intn(5); steps > 0 || has[0] && has[1]; steps-- {
		i := t.rng.Intn(2)
		changed := slices.Clone(rows[i])
		if has[i] = !has[i]; has[i] {
			changed[n] = value
		} else {
			changed[n].SetNull()
		}
		if err := t.update(ctx, handles[i], rows[i], changed); err != nil {
			return err
		}
		rows[i] = changed
	}
	return nil
}

// replaceInto is REPLACE: it deletes every row that is in the way.
func (t *transaction) replaceInto(ctx context.Context) error {
	row, err := t.randomRow(t.randomID())
	if err != nil {
		return err
	}
	for {
		err := t.add(ctx, row)
		var dup *table.DuplicateError
		if !errors.As(err, &dup) {
			return err
		}
		if err := t.remove(ctx, dup.Handle, dup.Row); err != nil {
			return err
		}
	}
}

// upsert is INSERT ... ON DUPLICATE KEY UPDATE.
func (t *transaction) upsert(ctx context.Context) error {
	row, err := t.randomRow(t.randomID())
	if err != nil {
		return err
	}
	err = t.add(ctx, row)
	var dup *table.DuplicateError
	if !errors.As(err, &dup) {
		return err
	}
	changed := slices.Clone(dup.Row)
	for i := 1; i < len(row); i++ {
		if t.rng.Intn(2) == 0 {
			changed[i] = row[i]
		}
	}
	return t.update(ctx, dup.Handle, dup.Row, changed)
}

// insertIgnore is INSERT IGNORE of a few rows.
func (t *transaction) insertIgnore(ctx context.Context) error {
	for range 1 + t.rng.Intn(4) {
		err := t.insert(ctx, t.randomID())
		var dup *table.DuplicateError
		if err != nil && !errors.As(err, &dup) {
			return err
		}
	}
	return nil
}

// updateMany is an UPDATE of the rows of a range of the table.
func (t *transaction) updateMany(ctx context.Context) error {
	tbl := table.Of(t.read)
	it, err := tbl.Reader(t.txn, nil, nil).Scan([]kv.KeyRange{tbl.RecordRange()}, t.rng.Intn(2) == 0)
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for range 1 + t.rng.Intn(20) {
		h, old, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, changed := t.rows[handleText(h)]; changed {
			// The iterator may show the row as it was before.
			continue
		}
		old = slices.Clone(old)
		row := slices.Clone(old)
		at := 1 + t.rng.Intn(len(row)-1)
		if row[at], err = randomValue(t.rng, t.tbl.Columns()[at]); err != nil {
			return err
		}
		if err := t.update(ctx, h, old, row); err != nil {
			return err
		}
	}
	return nil
}

// reasonable returns err, unless it is a DuplicateError that no row gives a
// reason for. self is the handle of the row that is updated, nil for an insert.
func (t *transaction) reasonable(err error, row []types.Datum, self tkv.Handle) error {
	var dup *table.DuplicateError
	if !errors.As(err, &dup) {
		return err
	}
	if self != nil && self.Equal(dup.Handle) {
		return fmt.Errorf("a row collides with itself: %s", err)
	}
	_, name, _ := strings.Cut(dup.Key, ".")
	same, checkErr := t.sameKey(name, row, dup)
	if checkErr != nil {
		return fmt.Errorf("reason of %q: %w", err, checkErr)
	}
	if !same {
		return fmt.Errorf("%s: without a reason: row %v, in the way is %v", err, row, dup.Row)
	}
	return err
}

// sameKey says whether a new row has the same key as the one that is said to be
// in its way.
func (t *transaction) sameKey(name string, row []types.Datum, dup *table.DuplicateError) (bool, error) {
	meta := t.tbl.Meta()
	if name == mysql.PrimaryKeyName && !t.tbl.HasHiddenRowID() {
		h, err := t.tbl.HandleOf(row)
		return err == nil && h.Equal(dup.Handle), err
	}
	idx := meta.FindIndexByName(strings.ToLower(name))
	if idx == nil {
		return false, fmt.Errorf("there is no index %s", name)
	}
	a, _, distinct, err := t.tbl.IndexEntry(idx, row, dup.Handle)
	if err != nil {
		return false, err
	}
	b, _, _, err := t.tbl.IndexEntry(idx, dup.Row, dup.Handle)
	return distinct && string(a) == string(b), err
}

// compareIndex reads all rows through an index that the transaction may use and
// compares them with the table, as the transaction sees both.
func (t *transaction) compareIndex(ctx context.Context) error {
	tbl := table.Of(t.read)
	public := tbl.PublicIndexes()
	if len(public) == 0 {
		return nil
	}
	idx := pick(t.rng, public...)
	if t.tbl != nil && !maintains(t.tbl.Meta(), idx.ID) {
		return nil
	}
	rd := tbl.Reader(t.txn, nil, nil)
	want, err := scanned(ctx)(rd.Scan([]kv.KeyRange{tbl.RecordRange()}, false))
	if err != nil {
		return err
	}
	got, err := scanned(ctx)(rd.IndexScan(idx, []kv.KeyRange{tbl.IndexRange(idx)}, t.rng.Intn(2) == 0))
	if err != nil {
		return err
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("a transaction at %d reads other rows through index %s (id %d) than through the table: %s",
			t.txn.StartTS(), idx.Name.O, idx.ID, difference(want, got))
	}
	return nil
}

// maintains says whether writes under a version of the table put entries into
// an index. Otherwise it lacks the transaction's own rows.
func maintains(tbl *model.TableInfo, indexID int64) bool {
	for _, idx := range tbl.Indices {
		if idx.ID == indexID {
			return idx.State != model.StateDeleteOnly && idx.State != model.StateNone
		}
	}
	return false
}

// scanned returns a function that takes all rows of an iterator, by handle.
func scanned(ctx context.Context) func(*table.RowIter, error) (map[string]string, error) {
	return func(it *table.RowIter, err error) (map[string]string, error) {
		if err != nil {
			return nil, err
		}
		defer func() { _ = it.Close() }()
		rows := make(map[string]string)
		for {
			h, row, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return rows, nil
			}
			if err != nil {
				return nil, err
			}
			key := handleText(h)
			if _, twice := rows[key]; twice {
				return nil, fmt.Errorf("the row with handle %x comes twice", key)
			}
			if rows[key], err = rowText(row); err != nil {
				return nil, err
			}
		}
	}
}
