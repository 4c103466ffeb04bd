package tikv

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/kv"
)

// longTTL outlives a test, in milliseconds.
const longTTL = 3_600_000

// lockClient adds locks of committed transactions to the locks that are listed, as they stay in TiKV if a
// client dies after it has committed the primary key. The coprocessor meets these locks. It counts how often locks are listed.
type lockClient struct {
	tikv.Client
	mu    sync.Mutex
	left  []*kvrpcpb.LockInfo
	scans int
	// prewriting is the number of further responses that fail with a lock that is in memory only.
	prewriting int
	// second, if set, blocks requests for locks until there are two of them.
	second chan struct{}
	begun  atomic.Int32
}

func lockClientOf(t *testing.T, s *testStore) *lockClient {
	t.Helper()
	store := s.data.Storage().(interface {
		GetTiKVClient() tikv.Client
		SetTiKVClient(client tikv.Client)
	})
	c := &lockClient{Client: store.GetTiKVClient()}
	store.SetTiKVClient(c)
	return c
}

// SendRequest implements tikv.Client.
func (c *lockClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	if req.Type == tikvrpc.CmdScanLock && c.second != nil {
		if c.begun.Add(1) == 2 {
			close(c.second)
		}
		select {
		case <-c.second:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if asked, ok := req.Req.(*coprocessor.Request); ok {
		if met := c.meets(asked, req.ResolvedLocks); met != nil {
			return &tikvrpc.Response{Resp: &coprocessor.Response{Locked: met}}, nil
		}
	}
	resp, err := c.Client.SendRequest(ctx, addr, req, timeout)
	if err != nil {
		return resp, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r := req.Req.(type) {
	case *kvrpcpb.ResolveLockRequest:
		c.left = slices.DeleteFunc(c.left, func(l *kvrpcpb.LockInfo) bool { return l.LockVersion == r.StartVersion && r.CommitVersion != 0 })
	case *kvrpcpb.ScanLockRequest:
		c.scans++
		answer := resp.Resp.(*kvrpcpb.ScanLockResponse)
		if answer.RegionError != nil {
			break
		}
		if c.prewriting > 0 {
			c.prewriting--
			resp.Resp = &kvrpcpb.ScanLockResponse{Error: &kvrpcpb.KeyError{Locked: &kvrpcpb.LockInfo{Key: r.StartKey}}}
			break
		}
		for _, l := range c.left {
			if l.LockVersion <= r.MaxVersion && bytes.Compare(l.Key, r.StartKey) >= 0 && (len(r.EndKey) == 0 || bytes.Compare(l.Key, r.EndKey) < 0) {
				answer.Locks = append(answer.Locks, l)
			}
		}
	}
	return resp, nil
}

// meets returns a lock that is in the way of a request that passes the locks of some transactions.
func (c *lockClient) meets(asked *coprocessor.Request, passed []uint64) *kvrpcpb.LockInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.left {
		for _, r := range asked.Ranges {
			if (kv.KeyRange{Start: r.Start, End: r.End}).Contains(l.Key) && l.LockVersion <= asked.StartTs && !slices.Contains(passed, l.LockVersion) {
				return l
			}
		}
	}
	return nil
}

func (c *lockClient) listed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scans
}

// call sends a request to the region of a key.
func (s *testStore) call(t *testing.T, tp tikvrpc.CmdType, key string, req any) any {
	t.Helper()
	bo := tikv.NewBackofferWithVars(t.Context(), maxBackoff, nil)
	region, err := s.cluster.GetRegionCache().LocateKey(bo, []byte(key))
	require.NoError(t, err)
	resp, err := s.cluster.SendReq(bo, tikvrpc.NewRequest(tp, req), region.Region, time.Minute)
	require.NoError(t, err)
	regionErr, err := resp.GetRegionError()
	require.NoError(t, err)
	require.Nil(t, regionErr)
	return resp.Resp
}

// prewritten prewrites keys of one region, the first of which is the primary key, and returns the
// transaction's timestamp.
func (s *testStore) prewritten(t *testing.T, ttl uint64, op kvrpcpb.Op, keys ...string) uint64 {
	t.Helper()
	start, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	req := &kvrpcpb.PrewriteRequest{StartVersion: start, LockTtl: ttl, PrimaryLock: []byte(keys[0])}
	for _, k := range keys {
		req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: op, Key: []byte(k), Value: []byte(k)})
	}
	require.Empty(t, s.call(t, tikvrpc.CmdPrewrite, keys[0], req).(*kvrpcpb.PrewriteResponse).Errors)
	return start
}

// committed commits what was prewritten.
func (s *testStore) committed(t *testing.T, start uint64, keys ...string) {
	t.Helper()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	req := &kvrpcpb.CommitRequest{StartVersion: start, CommitVersion: ts}
	for _, k := range keys {
		req.Keys = append(req.Keys, []byte(k))
	}
	require.Nil(t, s.call(t, tikvrpc.CmdCommit, keys[0], req).(*kvrpcpb.CommitResponse).Error)
}

// left lists the keys that are locked in a range.
func (s *testStore) left(t *testing.T, r kv.KeyRange) (keys []string) {
	t.Helper()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	for {
		locks, next, err := s.scanLocks(backoffer(t.Context()), ts, r)
		require.NoError(t, err)
		for _, l := range locks {
			keys = append(keys, string(l.Key))
		}
		if r.Start = next; len(next) == 0 || r.Empty() {
			return keys
		}
	}
}

// settle settles the locks of transactions that have begun.
func (s *testStore) settle(t *testing.T, ranges ...kv.KeyRange) error {
	t.Helper()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	return s.SettleLocks(t.Context(), ts, ranges...)
}

var inside = kv.KeyRange{Start: []byte("k"), End: []byte("p")}

// TestSettleLocks: SettleLocks resolves the locks of keys that are not written, in all regions of the ranges,
// if the client is gone, whether its transaction was committed or not.
func TestSettleLocks(t *testing.T) {
	s := openNew(t)
	s.splitAt(t, "a", "l", "m", "n", "z")
	client := lockClientOf(t, s)
	for _, k := range []string{"k", "l", "m", "o"} {
		s.prewritten(t, 1, kvrpcpb.Op_Lock, k+"1", k+"2")
		start := s.prewritten(t, longTTL, kvrpcpb.Op_Put, k+"primary")
		s.committed(t, start, k+"primary")
		client.left = append(client.left, &kvrpcpb.LockInfo{
			PrimaryLock: []byte(k + "primary"), LockVersion: start, Key: []byte(k + "3"), LockTtl: longTTL, LockType: kvrpcpb.Op_Lock,
		})
	}
	s.splitAt(t, "kk", "mm") // which the region cache has not seen
	require.Len(t, s.left(t, inside), 12)
	client.prewriting = 2
	require.NoError(t, s.settle(t, inside))
	require.Empty(t, s.left(t, inside))

	before := client.listed()
	require.NoError(t, s.settle(t, kv.KeyRange{Start: []byte("ka"), End: []byte("kb")}, kv.KeyRange{Start: []byte("b"), End: []byte("b")}))
	require.Equal(t, before+1, client.listed(), "one request, and none for nothing")
	require.NoError(t, s.settle(t, kv.KeyRange{Start: []byte("y")}), "to the end of the key space")
}

// TestSettleLocksOfManyRanges: the ranges of the partitions of a table are settled in parallel.
func TestSettleLocksOfManyRanges(t *testing.T) {
	s := openNew(t)
	client := lockClientOf(t, s)
	var ranges []kv.KeyRange
	for i := range 20 {
		key := fmt.Sprintf("k%02d", i)
		s.prewritten(t, 1, kvrpcpb.Op_Lock, key)
		ranges = append(ranges, kv.PrefixRange([]byte(key)))
	}
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	client.second = make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, s.SettleLocks(ctx, ts, ranges...))
	require.Empty(t, s.left(t, inside))
}

// TestSettleLocksAwaitsCommits: SettleLocks waits for a transaction whose client lives, and does not roll it back.
func TestSettleLocksAwaitsCommits(t *testing.T) {
	s := openNew(t)
	client := lockClientOf(t, s)
	start := s.prewritten(t, longTTL, kvrpcpb.Op_Lock, "m1", "m2")
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	settled := make(chan error, 1)
	go func() { settled <- s.SettleLocks(t.Context(), ts, inside) }()
	require.Eventually(t, func() bool { return client.listed() > 2 || len(settled) > 0 }, 5*time.Minute, time.Millisecond)
	require.Empty(t, settled, "it did not wait")
	s.committed(t, start, "m1", "m2")
	require.NoError(t, <-settled)

	start = s.prewritten(t, longTTL, kvrpcpb.Op_Lock, "m1")
	ctx, cancel := context.WithCancel(t.Context())
	ts, err = s.CurrentTS(ctx)
	require.NoError(t, err)
	before := client.listed()
	go func() { settled <- s.SettleLocks(ctx, ts, inside) }()
	require.Eventually(t, func() bool { return client.listed() > before }, 5*time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-settled, context.Canceled)
	s.committed(t, start, "m1")
}

// TestSettleLocksLeavesOthers: SettleLocks does not wait for any number of locks of transactions that go on, if
// readers see them by themselves, or if they began later or are elsewhere.
func TestSettleLocksLeavesOthers(t *testing.T) {
	s := openNew(t)
	s.prewritten(t, longTTL, kvrpcpb.Op_Lock, "j", "p", "q")
	s.prewritten(t, longTTL, kvrpcpb.Op_Put, "m", "n")
	start, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	req := &kvrpcpb.PessimisticLockRequest{StartVersion: start, ForUpdateTs: start, LockTtl: longTTL, PrimaryLock: []byte("l0000")}
	for i := range 3 * scanLockLimit {
		req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: kvrpcpb.Op_PessimisticLock, Key: fmt.Appendf(nil, "l%04d", i)})
	}
	require.Empty(t, s.call(t, tikvrpc.CmdPessimisticLock, "l", req).(*kvrpcpb.PessimisticLockResponse).Errors)
	s.prewritten(t, 1, kvrpcpb.Op_Lock, "l9999") // behind all those
	before, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	s.prewritten(t, longTTL, kvrpcpb.Op_Lock, "o")

	require.NoError(t, s.SettleLocks(t.Context(), before, inside))
	left := s.left(t, inside)
	require.Len(t, left, 3*scanLockLimit+3)
	require.NotContains(t, left, "l9999")
	require.Contains(t, left, "o")
}
