package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/kv"
)

const (
	// splitTimeout is how long a region may take to be split.
	splitTimeout = 30 * time.Second
	// fenceBackoff bounds how long one region may refuse, in milliseconds.
	fenceBackoff = 120_000
)

// Fence implements kv.Fencer: it splits each region of the ranges, whereby its epoch changes. TiKV
// refuses what was written or is to be imported under an epoch that has passed.
//
// What is split is what TiKV itself takes for the region: a request with an epoch that
// is not the region's is refused, and the region is looked up anew. One split changes the epoch
// of both halves, so all requests sent to any key of the old region are refused, and the other
// ranges in it need no split of their own: an index has a range in each partition, and many of
// them lie in one region.
func (s *Store) Fence(ctx context.Context, ranges ...kv.KeyRange) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.exit()
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b kv.KeyRange) int { return bytes.Compare(a.Start, b.Start) })
	var fenced []byte // what lies below, of ranges that are still to come, is done
	for _, r := range ranges {
		for {
			if bytes.Compare(r.Start, fenced) < 0 {
				r.Start = fenced
			}
			if r.Empty() {
				break
			}
			end, err := s.fenceRegion(ctx, r)
			if err != nil {
				return failed(ctx, fmt.Sprintf("fence %s", r), err)
			}
			if len(end) == 0 { // it was the last one
				return nil
			}
			fenced = end
		}
	}
	return nil
}

// fenceRegion splits the region that r begins in, and returns its end.
func (s *Store) fenceRegion(ctx context.Context, r kv.KeyRange) (end []byte, err error) {
	bo := tikv.NewBackofferWithVars(ctx, fenceBackoff, s.vars)
	for {
		region, err := s.cluster.GetRegionCache().LocateKey(bo, r.Start)
		if err != nil {
			return nil, err
		}
		key, ok := splitKey(region.StartKey, region.EndKey, r)
		if !ok {
			return nil, fmt.Errorf("region %d from %x to %x cannot be split", region.Region.GetID(), region.StartKey, region.EndKey)
		}
		split, err := s.split(bo, region, key)
		if err != nil {
			return nil, err
		}
		if split {
			return region.EndKey, nil
		}
	}
}

// split splits a region at key. It reports false if TiKV has the region no more as it is
// given; then it has waited a little.
func (s *Store) split(bo *tikv.Backoffer, region *tikv.KeyLocation, key []byte) (bool, error) {
	req := tikvrpc.NewRequest(tikvrpc.CmdSplitRegion, &kvrpcpb.SplitRegionRequest{SplitKeys: [][]byte{key}}, kvrpcpb.Context{
		Priority: kvrpcpb.CommandPri_Normal, RequestSource: RequestSource(),
	})
	resp, err := s.cluster.SendReq(bo, req, region.Region, splitTimeout)
	if err != nil {
		return false, err
	}
	regionErr, err := resp.GetRegionError()
	if err != nil {
		return false, err
	}
	if regionErr != nil {
		return false, bo.Backoff(tikv.BoRegionMiss(), errors.New(regionErr.String()))
	}
	answer, ok := resp.Resp.(*kvrpcpb.SplitRegionResponse)
	if !ok || len(answer.Regions) < 2 {
		return false, fmt.Errorf("region %d was not split: %v", region.Region.GetID(), resp.Resp)
	}
	for _, r := range answer.Regions {
		if r.GetRegionEpoch().GetVersion() <= region.Region.GetVer() {
			return false, fmt.Errorf("region %d was split and has epoch %s", r.GetId(), r.GetRegionEpoch())
		}
	}
	s.cluster.GetRegionCache().InvalidateCachedRegion(region.Region)
	return true, nil
}

// splitKey returns a key inside the region [start, end), where an empty end is unbounded,
// at which it can be split: an end of r if one lies inside it, or else one in the middle,
// so that it can be done again and again. Only a region of a single key has none.
func splitKey(start, end []byte, r kv.KeyRange) (key []byte, ok bool) {
	inside := func(key []byte) bool {
		return len(key) > 0 && bytes.Compare(key, start) > 0 && (len(end) == 0 || bytes.Compare(key, end) < 0)
	}
	// The middle is that of the keys as fractions, of one byte more than they have.
	size := max(len(start), len(end)) + 1
	high := bytes.Repeat([]byte{0xff}, size)
	if len(end) > 0 {
		high = end
	}
	sum := new(big.Int).Add(fraction(start, size), fraction(high, size))
	middle := sum.Rsh(sum, 1).FillBytes(make([]byte, size))
	for _, key := range [][]byte{r.Start, r.End, middle, kv.NextKey(start)} {
		if inside(key) {
			return key, true
		}
	}
	return nil, false
}

// fraction is key as a number of size bytes.
func fraction(key []byte, size int) *big.Int {
	return new(big.Int).SetBytes(append(bytes.Clone(key), make([]byte, size-len(key))...))
}
