package compare

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// A comparison with indexes in a store that sums its entries up itself. If the sums of what the
// rows give are those of the store, rows and indexes are equal, and no entry has to come here.

// storeSumsAgree says that the store's sums of all indexes are those of what the rows give. Every
// record must have been scanned. If it says no, nothing is known of the comparison.
func (c *comparison) storeSumsAgree(ctx context.Context) (bool, error) {
	entries, err := c.storeEntries(ctx)
	if err != nil {
		return false, err
	}
	s := c.newStoreSums()
	if err := s.addAll(ctx, entries); err != nil {
		return false, err
	}
	return s.agree()
}

// storeEntries cuts all indexes where the store cuts them. It asks the store once: a comparison that has found rows to
// have changed needs them again.
func (c *comparison) storeEntries(ctx context.Context) ([]keyrange.Indexed, error) {
	if c.stored != nil {
		return c.stored, nil
	}
	var parts []keyrange.Indexed
	for _, r := range c.IndexRanges() {
		ranges, err := keyrange.OfStore(ctx, c.Opts.Store, r.KeyRange)
		if err != nil {
			return nil, err
		}
		for _, part := range ranges {
			parts = append(parts, keyrange.Indexed{KeyRange: part, Index: r.Index})
		}
	}
	c.stored = parts
	return parts, nil
}

// storeSums are those of a comparison, by index.
type storeSums struct {
	c    *comparison
	sums kv.Checksummer

	mu            sync.Mutex
	given, stored []ingest.Totals
	records       []int64
}

func (c *comparison) newStoreSums() *storeSums {
	n := len(c.Task.Indexes)
	return &storeSums{
		c: c, sums: c.Opts.Store.(kv.Checksummer),
		given: make([]ingest.Totals, n), stored: make([]ingest.Totals, n), records: make([]int64, n),
	}
}

// addAll adds what the rows of the comparison give and what the store has of entries, and counts the records.
func (s *storeSums) addAll(ctx context.Context, entries []keyrange.Indexed) error {
	c := s.c
	done := enterCompare(c.Execution, len(c.rows)+len(c.counts)+len(entries))
	// The workers read rows; who asks the store for sums does nothing but wait.
	return parallel.Do(ctx, 2, func() int { return 2 }, func(ctx context.Context, i int) error {
		if i == 0 {
			return parallel.Do(ctx, len(c.rows), c.Share.Workers, func(ctx context.Context, i int) error {
				defer done()
				return s.addRows(ctx, c.rows[i])
			})
		}
		return parallel.Do(ctx, len(c.counts)+len(entries), c.StoreParallel, func(ctx context.Context, i int) error {
			defer done()
			if i < len(c.counts) {
				return c.countPart(ctx, c.counts[i])
			}
			return s.addStored(ctx, entries[i-len(c.counts)])
		})
	})
}

// agree is storeSumsAgree when everything is added.
func (s *storeSums) agree() (bool, error) {
	if err := s.c.checkCount(); err != nil {
		return false, err
	}
	if !s.equal(s.given) {
		s.c.scanned.Store(0)
		s.c.keys.Store(0)
		return false, nil
	}
	return true, nil
}

// equal says that the store has what the rows give, and sets the result's entries and records.
func (s *storeSums) equal(given []ingest.Totals) bool {
	if !slices.Equal(given, s.stored) {
		return false
	}
	for k, totals := range given {
		s.c.result.Entries[k] = totals.Entries
	}
	s.c.result.Records = s.records
	return true
}

// addStored adds what the store has of an index.
func (s *storeSums) addStored(ctx context.Context, r keyrange.Indexed) error {
	totals, records, err := s.c.StoreSum(ctx, s.sums, r.KeyRange)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[r.Index].Add(totals)
	s.records[r.Index] += records
	return err
}

// addRows adds what some rows give.
func (s *storeSums) addRows(ctx context.Context, t keyrange.Weighted) error {
	pacer, end := s.c.StartVerifying()
	defer end()
	sink := rowTotals{of: make([]ingest.Totals, len(s.given))}
	for _, idx := range s.c.Task.Indexes {
		sink.prefixCRC = append(sink.prefixCRC, kv.UpdateCRC(0, prefixOf(s.c.Execution, idx, t.PhysicalID())))
	}
	if err := s.c.readRows(ctx, t, pacer, &sink, true); err != nil {
		return fmt.Errorf("backfill: compare: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, totals := range sink.of {
		s.given[k].Add(totals)
	}
	return nil
}

// rowTotals adds entries of rows of one physical table up as the store does.
type rowTotals struct {
	prefixCRC []uint64 // by index
	of        []ingest.Totals
}

func (t *rowTotals) fromRow(k int, _ uint64, e rowEntry) { t.of[k].AddForStore(t.prefixCRC[k], e.kv) }

func (*rowTotals) fromIndex(int, uint64, []byte, []byte) {}
