package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ingest"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

const (
	// smallRanges is how many indexes of partitions that are small are looked at together: few
	// regions have them all.
	smallRanges = 16
	// smallBytes is the greatest region that may be looked at by one request.
	smallBytes = 4 * storeRequestBytes
)

// Shadowed returns the keys of unique indexes whose entries a snapshot at task.TS does not see
// although they are there, by index and key, and says that there are more. A comparison misses
// nothing, because no row has them, but they are seen again when garbage collection has removed
// the record that hides them: they are differences without rows and without an entry. It paces
// itself and obeys ctx as Compare does.
func Shadowed(ctx context.Context, opts Options, task Task) (found []Difference, more bool, err error) {
	finder, ok := opts.Store.(kv.ShadowFinder)
	if !ok {
		return nil, false, nil
	}
	opts.EnsureDefaults()
	x, err := newExecution(opts, task)
	if err := errors.Join(invalid("options", opts.problems()), err); err != nil {
		return nil, false, err
	}
	s := shadows{execution: x, finder: finder}
	if err := ended(ctx, s.run(ctx)); err != nil {
		return nil, false, fmt.Errorf("backfill: hidden entries: %w", err)
	}
	return s.found, s.more, nil
}

// shadows is one run of Shadowed.
type shadows struct {
	*execution
	finder kv.ShadowFinder
	done   atomic.Int64

	mu    sync.Mutex
	found []Difference
	more  bool
}

// shadowedPart is a part of a unique index that is looked at at one time.
type shadowedPart struct {
	index  *model.IndexInfo
	ranges []kv.KeyRange
}

func (s *shadows) run(ctx context.Context) error {
	parts, err := s.plan(ctx)
	if err != nil || len(parts) == 0 {
		return err
	}
	return s.execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		s.enter(stageCompare, func() float64 { return float64(s.done.Load()) / float64(len(parts)) })
		err := parallel.Do(ctx, len(parts), s.storeParallel, func(ctx context.Context, i int) error { return s.look(ctx, parts[i]) })
		slices.SortFunc(s.found, func(a, b Difference) int { return bytes.Compare(a.Key, b.Key) })
		return err
	})
}

// plan cuts unique indexes where the store cuts them. What it does not cut lies in one region, maybe
// with others.
func (s *shadows) plan(ctx context.Context) (parts []shadowedPart, err error) {
	for _, idx := range s.task.Indexes {
		if !idx.Unique {
			continue
		}
		var small []kv.KeyRange
		for _, id := range indexIDs(s.task.Table, idx, s.physicals) {
			r := indexRange(id, idx.ID)
			pieces, err := s.opts.Store.Ranges(ctx, r)
			if err != nil {
				return nil, err
			}
			if len(pieces) == 1 && pieces[0].Bytes <= smallBytes {
				small = append(small, r)
				continue
			}
			cut, err := cutPieces(r, pieces)
			if err != nil {
				return nil, err
			}
			for _, r := range cut {
				parts = append(parts, shadowedPart{idx, []kv.KeyRange{r}})
			}
		}
		for together := range slices.Chunk(small, smallRanges) {
			parts = append(parts, shadowedPart{idx, together})
		}
	}
	return parts, nil
}

// look looks at a part.
func (s *shadows) look(ctx context.Context, p shadowedPart) error {
	pacer, end := s.startVerifying()
	defer end()
	defer s.done.Add(1)
	if err := pacer.Pace(ctx); err != nil {
		return err
	}
	column := s.task.Table.Columns[p.index.Columns[0].Offset]
	return s.finder.Shadowed(ctx, p.ranges, s.task.TS, column, func(key []byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.found) == maxDifferences {
			s.more = true
			return nil
		}
		s.found = append(s.found, Difference{Index: p.index.ID, Key: bytes.Clone(key)})
		return nil
	})
}
