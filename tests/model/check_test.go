package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/catalog"
	"fastddl/check"
	"fastddl/kv"
	"fastddl/table"
)

// snapshot is a timestamp with the table as it was published then, so that all
// its public indexes must equal the rows. Garbage collection is held at it.
type snapshot struct {
	ts    uint64
	entry *catalog.Table
	hold  kv.GCHold
}

// takeSnapshot takes a snapshot of now.
func (tr *tableRun) takeSnapshot(ctx context.Context) (*snapshot, error) {
	for {
		schema := tr.node.catalog.Current()
		ts, err := tr.node.store.CurrentTS(ctx)
		if err != nil {
			return nil, err
		}
		if tr.node.catalog.Current() != schema {
			continue
		}
		entry, ok := schema.Table(dbName, tr.name)
		if !ok {
			return nil, fmt.Errorf("table %s is gone", tr.name)
		}
		hold, err := tr.node.store.HoldGC(ctx, fmt.Sprintf("model/%s/%d", tr.name, ts), ts, time.Hour)
		if errors.Is(err, kv.ErrSnapshotTooOld) {
			// This goroutine was asleep for longer than versions are kept.
			continue
		}
		if err != nil {
			return nil, err
		}
		return &snapshot{ts, entry, hold}, nil
	}
}

// check compares what a snapshot holds with the model: the rows, and the entries
// of all public indexes. It may be called when the history has settled.
func (s *snapshot) check(ctx context.Context, n *node, h *history) error {
	tbl := table.Of(s.entry)
	snap, err := n.store.Snapshot(ctx, s.ts)
	if err != nil {
		return err
	}
	defer func() { _ = snap.Close() }()
	rows, entries, err := readRows(ctx, snap, tbl)
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	want, err := h.rowsAt(s.ts, s.entry)
	if err != nil {
		return err
	}
	if !maps.Equal(want, rows) {
		return fmt.Errorf("%s: rows differ from the acknowledged commits: %s", s, difference(want, rows))
	}
	for i, idx := range tbl.PublicIndexes() {
		got, err := readEntries(snap, tbl.IndexRange(idx))
		if err != nil {
			return err
		}
		if !maps.Equal(entries[i], got) {
			return fmt.Errorf("%s: index %s (id %d) differs from the rows: %s",
				s, idx.Name.O, idx.ID, difference(entries[i], got))
		}
	}
	if err := check.Table(ctx, n.store, s.entry, s.ts, check.Options{Workers: 1}); err != nil {
		return fmt.Errorf("%s: ADMIN CHECK TABLE: %w", s, err)
	}
	return nil
}

func (s *snapshot) String() string {
	return fmt.Sprintf("table %s (schema version %d) at %d", s.entry.Info.Name.O, s.entry.SchemaVersion, s.ts)
}

// readRows returns the rows by handle and, for each public index, the entries
// that they give.
func readRows(ctx context.Context, r kv.Retriever, tbl *table.Table) (rows map[string]string, entries []map[string]string, err error) {
	public := tbl.PublicIndexes()
	rows, entries = make(map[string]string), make([]map[string]string, len(public))
	for i := range entries {
		entries[i] = make(map[string]string)
	}
	it, err := tbl.Reader(r, nil, nil).Scan([]kv.KeyRange{tbl.RecordRange()}, false)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = it.Close() }()
	for {
		h, row, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return rows, entries, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if rows[handleText(h)], err = rowText(row); err != nil {
			return nil, nil, err
		}
		for i, idx := range public {
			key, value, _, err := tbl.IndexEntry(idx, row, h)
			if err != nil {
				return nil, nil, err
			}
			if other, taken := entries[i][string(key)]; taken {
				return nil, nil, fmt.Errorf("two rows have the key %x of unique index %s: %x and %x", key, idx.Name.O, other, value)
			}
			entries[i][string(key)] = string(value)
		}
	}
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
			report("\n  missing %x = %q", k, v)
		} else if g != v {
			report("\n  wrong %x = %q, want %q", k, g, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			report("\n  unexpected %x = %q", k, v)
		}
	}
	return fmt.Sprintf("%d of %d%s", n, len(want), text)
}

// checkIndexesGone verifies that nothing can be read under the index IDs above
// low, but for those that the table has: what a job that was undone had added is
// gone when the job has ended.
func (n *node) checkIndexesGone(ctx context.Context, tbl *model.TableInfo, low int64) error {
	ts, err := n.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	snap, err := n.store.Snapshot(ctx, ts)
	if err != nil {
		return err
	}
	defer func() { _ = snap.Close() }()
	for id := low + 1; id <= tbl.MaxIndexID; id++ {
		for what, rng := range map[string]kv.KeyRange{"entries": table.IndexRange(tbl.ID, id), "markers": table.MarkerRange(tbl.ID, id)} {
			left, err := readEntries(snap, rng)
			if err != nil {
				return err
			}
			if len(left) > 0 {
				return fmt.Errorf("table %s: %d %s of index %d are left", tbl.Name.O, len(left), what, id)
			}
		}
	}
	return nil
}

// checkNothingLeft verifies that nothing of dropped or undone indexes can be
// read: no key under an index ID that the table does not have.
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

// checkQuiet verifies that no job is left, no hold and no file.
func (n *node) checkQuiet(ctx context.Context) error {
	holds, err := n.store.GCHolds(ctx)
	if err != nil {
		return err
	}
	if len(holds) > 0 {
		return fmt.Errorf("holds on garbage collection are left: %v", holds)
	}
	if blockers := n.locks.Blockers(); len(blockers) > 0 {
		return fmt.Errorf("waits for the metadata lock are left: %+v", blockers)
	}
	jobs, err := n.ddl.Jobs(ctx)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if !ended(&j) {
			return fmt.Errorf("a job is left: %+v", j)
		}
	}
	return filepath.WalkDir(n.tempDir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || path == n.tempDir {
			return err
		}
		return fmt.Errorf("left in the temp folder: %s", path)
	})
}
