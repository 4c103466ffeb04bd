package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
	"fastddl/table"
)

// checkSnapshot compares what a snapshot at ts holds with the model: the rows,
// and the entries of the given indexes, which must have been public at ts.
func (n *node) checkSnapshot(ctx context.Context, name string, h *history, ts uint64, indexes []*model.IndexInfo) error {
	entry, ok := n.catalog.Current().Table(dbName, name)
	if !ok {
		return fmt.Errorf("table %s is gone", name)
	}
	tbl := table.Of(entry)
	snap, err := n.store.Snapshot(ctx, ts)
	if err != nil {
		return err
	}
	defer func() { _ = snap.Close() }()

	wantEntries := make([]map[string]string, len(indexes))
	for i := range wantEntries {
		wantEntries[i] = make(map[string]string)
	}
	rows := make(map[string]string)
	it, err := tbl.Reader(snap, nil, nil).Scan([]kv.KeyRange{tbl.RecordRange()}, false)
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for {
		h, row, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if rows[handleText(h)], err = rowText(row); err != nil {
			return err
		}
		for i, idx := range indexes {
			key, value, _, err := tbl.IndexEntry(idx, row, h)
			if err != nil {
				return err
			}
			if other, taken := wantEntries[i][string(key)]; taken {
				return fmt.Errorf("table %s at %d: two rows have the key %x of unique index %s: %x and %x",
					name, ts, key, idx.Name.O, other, value)
			}
			wantEntries[i][string(key)] = string(value)
		}
	}
	if want := h.rowsAt(ts); !maps.Equal(want, rows) {
		return fmt.Errorf("table %s at %d: rows differ from the acknowledged commits: %s", name, ts, difference(want, rows))
	}
	for i, idx := range indexes {
		got, err := readEntries(snap, table.IndexRange(tbl.Meta().ID, idx.ID))
		if err != nil {
			return err
		}
		if !maps.Equal(wantEntries[i], got) {
			return fmt.Errorf("table %s at %d: index %s (id %d) differs from the rows: %s",
				name, ts, idx.Name.O, idx.ID, difference(wantEntries[i], got))
		}
	}
	return nil
}

func readEntries(r kv.Retriever, rng kv.KeyRange) (map[string]string, error) {
	out := make(map[string]string)
	it, err := r.Iter(rng)
	if err != nil {
		return nil, err
	}
	defer func() { _ = it.Close() }()
	for it.Valid() {
		out[string(it.Key())] = string(it.Value())
		if err := it.Next(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// difference names up to three keys that two maps do not agree on.
func difference(want, got map[string]string) string {
	text, n := "", 0
	report := func(format string, args ...any) {
		if n++; n <= 3 {
			text += fmt.Sprintf(format, args...)
		}
	}
	for k, v := range want {
		if g, ok := got[k]; !ok {
			report("\n  missing %x = %x", k, v)
		} else if g != v {
			report("\n  wrong %x = %x, want %x", k, g, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			report("\n  unexpected %x = %x", k, v)
		}
	}
	return fmt.Sprintf("%d of %d%s", n, len(want), text)
}

// checkNothingLeft verifies that nothing of dropped or rolled back indexes can
// be read: no key under an index ID that the table does not have.
func (n *node) checkNothingLeft(ctx context.Context, name string) error {
	entry, ok := n.catalog.Current().Table(dbName, name)
	if !ok {
		return fmt.Errorf("table %s is gone", name)
	}
	known := make(map[int64]bool)
	for _, idx := range entry.Info.Indices {
		known[idx.ID] = true
	}
	ts, err := n.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	snap, err := n.store.Snapshot(ctx, ts)
	if err != nil {
		return err
	}
	defer func() { _ = snap.Close() }()
	it, err := snap.Iter(kv.PrefixRange(tablecodec.GenTableIndexPrefix(entry.Info.ID)))
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for it.Valid() {
		_, indexID, isRecord, err := tablecodec.DecodeKeyHead(it.Key())
		if err != nil {
			return err
		}
		if !isRecord && !known[indexID] {
			return fmt.Errorf("table %s: a key of index %d is left, which does not exist: %x", name, indexID, it.Key())
		}
		if err := it.Next(); err != nil {
			return err
		}
	}
	return nil
}
