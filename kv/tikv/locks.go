package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/txnlock"

	"fastddl/internal/parallel"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

const (
	// scanLockLimit is how many locks are asked for at a time.
	scanLockLimit = 256
	// scanLockTimeout is how long one answer may take.
	scanLockTimeout = time.Minute
	// maxLockWait bounds the time between two looks at the lock of a transaction that lives.
	maxLockWait = 100 * time.Millisecond
	// settleConcurrency is how many ranges are looked at at a time.
	settleConcurrency = 8
)

// SettleLocks implements kv.LockSettler. Readers pass locks of type Lock, and pessimistic ones, of any
// timestamp (check_ts_conflict_si in components/txn_types/src/lock.rs), so reading does not end them.
// Pessimistic ones are left alone: those of a transaction that has ended are never committed.
//
// It is one small request for each range and region.
func (s *Store) SettleLocks(ctx context.Context, before uint64, ranges ...kv.KeyRange) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.exit()
	return parallel.Do(ctx, len(ranges), func() int { return settleConcurrency }, func(ctx context.Context, i int) error {
		for r := ranges[i]; !r.Empty(); {
			next, err := s.settleSome(ctx, before, r)
			if err != nil {
				return failed(ctx, fmt.Sprintf("settle locks in %s", r), err)
			}
			if len(next) == 0 { // that was the last region
				break
			}
			r.Start = next
		}
		return nil
	})
}

// settleSome settles the locks at the beginning of r, and returns where it has ended.
func (s *Store) settleSome(ctx context.Context, before uint64, r kv.KeyRange) (next []byte, err error) {
	for {
		bo := tikv.NewBackofferWithVars(ctx, maxBackoff, s.vars)
		found, next, err := s.scanLocks(bo, before, r)
		if err != nil {
			return nil, err
		}
		var locks []*txnlock.Lock
		for _, l := range found {
			if l.LockType == kvrpcpb.Op_Lock {
				locks = append(locks, l)
			}
		}
		if len(locks) == 0 {
			return next, nil
		}
		// This is not a read at a timestamp, so no commit has to be moved above one.
		wait, err := s.cluster.GetLockResolver().ResolveLocks(bo, 0, locks)
		if err != nil {
			return nil, err
		}
		sleep.For(ctx, min(time.Duration(wait)*time.Millisecond, maxLockWait))
	}
}

// scanLocks returns locks at the beginning of r, and the key up to which there are no others; none
// if r has no end.
func (s *Store) scanLocks(bo *tikv.Backoffer, before uint64, r kv.KeyRange) (locks []*txnlock.Lock, next []byte, err error) {
	for {
		region, err := s.cluster.GetRegionCache().LocateKey(bo, r.Start)
		if err != nil {
			return nil, nil, err
		}
		end := region.EndKey
		if r.End != nil && (len(end) == 0 || bytes.Compare(r.End, end) < 0) {
			end = r.End
		}
		req := tikvrpc.NewRequest(tikvrpc.CmdScanLock, &kvrpcpb.ScanLockRequest{
			MaxVersion: before, Limit: scanLockLimit, StartKey: r.Start, EndKey: end,
		}, kvrpcpb.Context{Priority: kvrpcpb.CommandPri_Low, RequestSource: RequestSource()})
		resp, err := s.cluster.SendReq(bo, req, region.Region, scanLockTimeout)
		if err != nil {
			return nil, nil, err
		}
		regionErr, err := resp.GetRegionError()
		if err != nil {
			return nil, nil, err
		}
		if regionErr != nil {
			if err := bo.Backoff(tikv.BoRegionMiss(), errors.New(regionErr.String())); err != nil {
				return nil, nil, err
			}
			continue
		}
		answer, ok := resp.Resp.(*kvrpcpb.ScanLockResponse)
		switch {
		case !ok:
			return nil, nil, fmt.Errorf("locks of region %d: %v", region.Region.GetID(), resp.Resp)
		case answer.Error.GetLocked() != nil: // it is being prewritten just now
			if err := bo.Backoff(tikv.BoTxnLock(), errors.New(answer.Error.String())); err != nil {
				return nil, nil, err
			}
			continue
		case answer.Error != nil:
			return nil, nil, fmt.Errorf("locks of region %d: %v", region.Region.GetID(), answer.Error)
		}
		for _, l := range answer.Locks {
			locks = append(locks, txnlock.NewLock(l))
		}
		if len(locks) == scanLockLimit {
			end = kv.NextKey(locks[len(locks)-1].Key)
		}
		return locks, end, nil
	}
}
