package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/table/tables"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

const (
	// smallRanges is how many indexes of partitions that are small are looked at together: few
	// regions have them all.
	smallRanges = 16
	// smallBytes is the greatest region that may be looked at by one request.
	smallBytes = 4 * keyrange.StoreRequestBytes
)

// Shadowed returns the keys of unique indexes whose entries a snapshot at task.TS does not see
// although they are there, by index and key, and says that there are more. A comparison misses
// nothing, because no row has them, but they are seen again when garbage collection has removed
// the record that hides them: they are differences without rows and without an entry. What the
// snapshot sees are so many entries of each index, as the comparison has found. Where the store has met no other records then,
// nothing can be hidden. It paces itself and obeys ctx as Run does.
func Shadowed(ctx context.Context, opts execution.Options, task encode.Task, seen Result) (found []Difference, more bool, err error) {
	finder, ok := opts.Store.(kv.ShadowFinder)
	if !ok {
		return nil, false, nil
	}
	opts.EnsureDefaults()
	x, err := execution.New(opts, task)
	if err := errors.Join(opts.Validate(), err); err != nil {
		return nil, false, err
	}
	s := shadows{Execution: x, finder: finder, all: make([]atomic.Int64, len(task.Indexes))}
	if err := execution.Ended(ctx, s.run(ctx, seen)); err != nil {
		return nil, false, fmt.Errorf("backfill: hidden entries: %w", err)
	}
	return s.found, s.more, nil
}

// shadows is one run of Shadowed.
type shadows struct {
	*execution.Execution
	finder kv.ShadowFinder
	all    []atomic.Int64 // entries of each index

	mu    sync.Mutex
	found []Difference
	more  bool
}

// shadowedRanges are ranges of a unique index that are searched together.
type shadowedRanges struct {
	index  int // in the task
	ranges []kv.KeyRange
}

func (s *shadows) run(ctx context.Context, seen Result) error {
	groups, err := s.plan(ctx, func(k int) bool { return seen.Records != nil && seen.Records[k] == seen.Entries[k] })
	if err != nil || len(groups) == 0 {
		return err
	}
	return s.Execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		if err := s.each(ctx, groups, s.count); err != nil {
			return err
		}
		groups = slices.DeleteFunc(groups, func(p shadowedRanges) bool { return s.all[p.index].Load() == seen.Entries[p.index] })
		err := s.each(ctx, groups, s.find)
		slices.SortFunc(s.found, func(a, b Difference) int { return bytes.Compare(a.Key, b.Key) })
		return err
	})
}

// plan cuts unique indexes where the store cuts them. What it does not cut lies in one region, maybe
// with others. An index that is bare has no records that could hide anything.
func (s *shadows) plan(ctx context.Context, bare func(k int) bool) (groups []shadowedRanges, err error) {
	for k, idx := range s.Task.Indexes {
		if !idx.Unique || bare(k) {
			continue
		}
		var small []kv.KeyRange
		for _, id := range encode.IndexIDs(s.Task.Table, idx, s.Physicals) {
			r := encode.IndexRange(id, idx.ID)
			pieces, err := s.Opts.Store.Ranges(ctx, r)
			if err != nil {
				return nil, err
			}
			if len(pieces) == 1 && pieces[0].Bytes <= smallBytes {
				small = append(small, r)
				continue
			}
			cut, err := keyrange.CutPieces(r, pieces)
			if err != nil {
				return nil, err
			}
			for _, r := range cut {
				groups = append(groups, shadowedRanges{k, []kv.KeyRange{r}})
			}
		}
		for together := range slices.Chunk(small, smallRanges) {
			groups = append(groups, shadowedRanges{k, together})
		}
	}
	return groups, nil
}

// each calls fn for groups, as a stage of its own.
func (s *shadows) each(ctx context.Context, groups []shadowedRanges, fn func(ctx context.Context, p shadowedRanges, columns kv.EntryColumns) error) error {
	if len(groups) == 0 {
		return nil
	}
	done := enterCompare(s.Execution, len(groups))
	return parallel.Do(ctx, len(groups), s.StoreParallel, func(ctx context.Context, i int) error {
		pacer, end := s.StartVerifying()
		defer end()
		defer done()
		if err := pacer.Pace(ctx); err != nil {
			return err
		}
		return fn(ctx, groups[i], entryColumns(s.Task.Table, s.Task.Indexes[groups[i].index]))
	})
}

// entryColumns are what the entries of an index are made of.
func entryColumns(table *model.TableInfo, idx *model.IndexInfo) (c kv.EntryColumns) {
	c.Index = encode.ColumnsOf(table, idx)
	if table.IsCommonHandle {
		c.Handle = encode.ColumnsOf(table, tables.FindPrimaryIndex(table))
	}
	return c
}

func (s *shadows) count(ctx context.Context, p shadowedRanges, columns kv.EntryColumns) error {
	n, err := s.finder.CountAll(ctx, p.ranges, s.Task.TS, columns)
	s.all[p.index].Add(n)
	return err
}

func (s *shadows) find(ctx context.Context, p shadowedRanges, columns kv.EntryColumns) error {
	return s.finder.Shadowed(ctx, p.ranges, s.Task.TS, columns, func(key []byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.found) == maxDifferences {
			s.more = true
			return nil
		}
		s.found = append(s.found, Difference{Index: s.Task.Indexes[p.index].ID, Key: bytes.Clone(key)})
		return nil
	})
}
