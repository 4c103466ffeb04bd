package tikv

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/tikv/client-go/v2/tikv"

	"fastddl/kv"
)

// CountUnchanged implements kv.UnchangedCounter, for records only.
//
// A response of TiKV's has CanBeCached if TiDB may cache it and use it at later timestamps. It is not set if the range has
// a lock, or a version newer than the request's timestamp (met_newer_ts_data in
// src/storage/mvcc/reader/scanner/forward.rs). That holds for the moment of the read. Before each read we list the locks
// at or below upTo, so that transactions that prewrite afterwards commit above upTo. Those that commit in one phase, or by
// async commit, do so because the list raises the store's max_ts (scan_lock in src/storage/mod.rs), as becoming the leader
// of a region does; the others because they take their commit timestamp later.
func (s *Store) CountUnchanged(ctx context.Context, r kv.KeyRange, since, upTo uint64) (n int64, unchanged bool, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, false, err
	}
	defer s.exit()
	if err := s.readable(ctx, since); err != nil {
		return 0, false, err
	}
	if r.Empty() {
		return 0, true, ctx.Err()
	}
	if !isRecords(r) {
		return 0, false, fmt.Errorf("tikv: %s are not records of one table", r)
	}
	data, err := countDAG(tablecodec.DecodeTableID(r.Start))
	if err != nil {
		return 0, false, err
	}
	if n, unchanged, err = s.countAll(ctx, data, []kv.KeyRange{r}, since, upTo, false); err == nil {
		err = s.cluster.CheckVisibility(since)
	}
	return n, unchanged, failed(ctx, fmt.Sprintf("count %s", r), err)
}

// countAll is CountUnchanged for ranges; again says that what scans have visited is counted all the same.
func (s *Store) countAll(ctx context.Context, data []byte, ranges []kv.KeyRange, since, upTo uint64, again bool) (n int64, unchanged bool, err error) {
	for _, rest := range ranges {
		for !rest.Empty() {
			part, next, unchanged, err := s.countUnchanged(ctx, data, rest, since, upTo, again)
			if err != nil || !unchanged {
				return 0, false, err
			}
			n += part
			rest.Start = next
		}
	}
	return n, true, nil
}

// countUnchanged is countAll for the part of r in the region of its start; that part ends at next.
func (s *Store) countUnchanged(ctx context.Context, data []byte, r kv.KeyRange, since, upTo uint64, again bool) (n int64, next []byte, unchanged bool, err error) {
	bo := backoffer(ctx)
	for {
		locks, next, err := s.scanLocks(bo, upTo, r)
		if err != nil || len(locks) > 0 {
			return 0, nil, false, err
		}
		region, part, err := s.inFirstRegion(bo, kv.KeyRange{Start: r.Start, End: next})
		if err != nil {
			return 0, nil, false, err
		}
		if !again {
			n, gaps, untouched, err := s.untouched(bo, region, part, since, upTo)
			if err != nil {
				return 0, nil, false, err
			}
			if untouched {
				rest, unchanged, err := s.countAll(ctx, data, gaps, since, upTo, true)
				return n + rest, part.End, unchanged, err
			}
		}
		answer, err := s.sendCop(bo, region, &coprocessor.Request{
			Tp: tidbkv.ReqTypeDAG, StartTs: since, Data: data, Ranges: copRanges(part), IsCacheEnabled: true,
		}, nil)
		switch {
		case err != nil:
			return 0, nil, false, err
		case answer.RegionError != nil:
			if err := bo.Backoff(tikv.BoRegionMiss(), errors.New(answer.RegionError.String())); err != nil {
				return 0, nil, false, err
			}
			continue
		case answer.OtherError != "":
			return 0, nil, false, fmt.Errorf("region %d: %s", region.GetID(), answer.OtherError)
		case answer.Locked != nil || !answer.CanBeCached:
			return 0, nil, false, nil
		}
		n, err := countOf(answer.Data)
		return n, part.End, err == nil, err
	}
}
