package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tipb/go-tipb"

	"fastddl/kv"
)

// CountAll implements kv.ShadowFinder. Readers that go forward believe what a LOCK record says of older versions
// (last_change in src/storage/mvcc/reader/scanner/forward.rs), those that go backward do not look at it (backward.rs
// beside it). So TiKV counts backward.
func (s *Store) CountAll(ctx context.Context, ranges []kv.KeyRange, ts uint64, columns kv.EntryColumns) (n int64, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.exit()
	if err := s.readable(ctx, ts); err != nil {
		return 0, err
	}
	if ranges = inOrder(ranges); len(ranges) == 0 {
		return 0, ctx.Err()
	}
	n, err = s.countEntries(ctx, ranges, ts, columns, true)
	return n, failed(ctx, "entries", err)
}

// inOrder returns what is not empty of ranges, in key order.
func inOrder(ranges []kv.KeyRange) []kv.KeyRange {
	ranges = slices.DeleteFunc(slices.Clone(ranges), kv.KeyRange.Empty)
	slices.SortFunc(ranges, func(a, b kv.KeyRange) int { return bytes.Compare(a.Start, b.Start) })
	return ranges
}

// Shadowed implements kv.ShadowFinder. TiKV counts in both directions, and only a region of which the numbers
// differ is read: an entry that a row has is seen both ways. All ranges are counted together, since those of the
// partitions of a table may lie in few regions.
func (s *Store) Shadowed(ctx context.Context, ranges []kv.KeyRange, ts uint64, columns kv.EntryColumns, fn func(key []byte) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.exit()
	if err := s.readable(ctx, ts); err != nil {
		return err
	}
	ranges = inOrder(ranges)
	hides, err := s.hides(ctx, ranges, ts, columns)
	if err != nil || !hides {
		return failed(ctx, "hidden entries", err)
	}
	for _, r := range ranges {
		if err := s.shadowedOf(ctx, r, ts, columns, fn); err != nil {
			return failed(ctx, fmt.Sprintf("hidden entries of %s", r), err)
		}
	}
	return nil
}

// shadowedOf is Shadowed for one of the ranges.
func (s *Store) shadowedOf(ctx context.Context, r kv.KeyRange, ts uint64, columns kv.EntryColumns, fn func(key []byte) error) error {
	hides, err := s.hides(ctx, []kv.KeyRange{r}, ts, columns)
	if err != nil || !hides {
		return err
	}
	regions, err := s.regions(ctx, r)
	if err != nil {
		return err
	}
	for _, p := range cut(r, regions) {
		hides, err := s.hides(ctx, []kv.KeyRange{p.KeyRange}, ts, columns)
		if err != nil {
			return err
		}
		if !hides {
			continue
		}
		if err := s.shadowedIn(ctx, p.KeyRange, ts, fn); err != nil {
			return err
		}
	}
	return nil
}

// hides says that ranges of an index, which are in order, have entries that readers miss.
func (s *Store) hides(ctx context.Context, ranges []kv.KeyRange, ts uint64, columns kv.EntryColumns) (bool, error) {
	if len(ranges) == 0 {
		return false, ctx.Err()
	}
	forward, err := s.countEntries(ctx, ranges, ts, columns, false)
	if err != nil {
		return false, err
	}
	backward, err := s.countEntries(ctx, ranges, ts, columns, true)
	return forward != backward, err
}

// countEntries counts entries of an index.
func (s *Store) countEntries(ctx context.Context, ranges []kv.KeyRange, ts uint64, columns kv.EntryColumns, backward bool) (n int64, err error) {
	tableID, indexID, isRecord, err := tablecodec.DecodeKeyHead(ranges[0].Start)
	if err != nil || isRecord {
		return 0, errors.Join(fmt.Errorf("%x is no key of an index", ranges[0].Start), err)
	}
	scan := &tipb.IndexScan{TableId: tableID, IndexId: indexID, Desc: backward}
	if len(columns.Handle) == 0 {
		// TiKV does not decode a column whose value is not requested, but the request must have one.
		scan.Columns = util.ColumnsToProto(columns.Index[:1], false, true, false)
	} else {
		// If the handle in an entry has columns TiKV insists on being asked for them, behind those of the index
		// (build_operations in components/tidb_query_executors/src/index_scan_executor.rs).
		scan.Columns = util.ColumnsToProto(slices.Concat(columns.Index, columns.Handle), false, true, false)
		for _, col := range columns.Handle {
			scan.PrimaryColumnIds = append(scan.PrimaryColumnIds, col.ID)
		}
	}
	data, err := dagOf(1, &tipb.Executor{Tp: tipb.ExecType_TypeIndexScan, IdxScan: scan}, countExecutor())
	if err != nil {
		return 0, err
	}
	req := copRequest(ctx, tidbkv.ReqTypeDAG, data, ts, ranges...)
	req.Desc = backward
	err = s.answers(ctx, req, func(answer tidbkv.ResultSubset) error {
		part, err := countOf(answer.GetData())
		n += part
		return err
	})
	return n, err
}

// shadowedIn reads a range in both directions, a batch at a time.
func (s *Store) shadowedIn(ctx context.Context, r kv.KeyRange, ts uint64, fn func(key []byte) error) (err error) {
	snap, err := s.Snapshot(ctx, ts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	backward, err := snap.IterReverse(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backward.Close()) }()
	for end := r.End; backward.Valid(); {
		var keys [][]byte
		for ; backward.Valid() && len(keys) < iterBatch; err = backward.Next() {
			keys = append(keys, bytes.Clone(backward.Key()))
		}
		if err != nil {
			return err
		}
		start := keys[len(keys)-1]
		seen, err := keysIn(snap, kv.KeyRange{Start: start, End: end})
		if err != nil {
			return err
		}
		for _, key := range keys {
			if seen[string(key)] {
				continue
			}
			if err := fn(key); err != nil {
				return err
			}
		}
		end = start
	}
	return nil
}

// keysIn returns the keys that a snapshot sees in a range.
func keysIn(snap kv.Snapshot, r kv.KeyRange) (keys map[string]bool, err error) {
	iter, err := snap.Iter(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	keys = make(map[string]bool)
	for ; iter.Valid(); err = iter.Next() {
		keys[string(iter.Key())] = true
	}
	return keys, err
}
