package txn

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an engine over a store in memory.
type fixture struct {
	*Engine
	t *testing.T
}

func newFixture(t *testing.T, fs vfs.FS, opts Options) *fixture {
	t.Helper()
	store, err := pebblekv.Open("db", pebblekv.Options{FS: fs, GCRunInterval: func() time.Duration { return 0 }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	_, err = store.CurrentTS(t.Context())
	require.NoError(t, err)
	e, err := New(store, opts)
	require.NoError(t, err)
	return &fixture{e, t}
}

func (f *fixture) ts() uint64 {
	ts, err := f.store.CurrentTS(f.t.Context())
	require.NoError(f.t, err)
	return ts
}

func putOf(key, value string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: []byte(key), Value: []byte(value)}
}

func (f *fixture) prewrite(start uint64, one bool, muts ...*kvrpcpb.Mutation) (*kvrpcpb.PrewriteResponse, error) {
	return f.Prewrite(f.t.Context(), &kvrpcpb.PrewriteRequest{
		Mutations: muts, PrimaryLock: muts[0].Key, StartVersion: start, LockTtl: 1e6, TryOnePc: one,
	})
}

// set commits a pair in one phase.
func (f *fixture) set(key, value string) uint64 {
	resp, err := f.prewrite(f.ts(), true, putOf(key, value))
	require.NoError(f.t, err)
	require.Empty(f.t, resp.Errors)
	return resp.OnePcCommitTs
}

func (f *fixture) lock(start uint64, key string) (*kvrpcpb.PessimisticLockResponse, error) {
	return f.PessimisticLock(f.t.Context(), &kvrpcpb.PessimisticLockRequest{
		Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_PessimisticLock, Key: []byte(key)}},
		PrimaryLock:  []byte(key),
		StartVersion: start,
		ForUpdateTs:  start,
		LockTtl:      1e6,
	})
}

func (f *fixture) mustLock(key string) *kvrpcpb.PessimisticLockResponse {
	resp, err := f.lock(f.ts(), key)
	require.NoError(f.t, err)
	return resp
}

func (f *fixture) unlock(start uint64, keys ...string) {
	req := &kvrpcpb.PessimisticRollbackRequest{StartVersion: start, ForUpdateTs: math.MaxUint64}
	for _, k := range keys {
		req.Keys = append(req.Keys, []byte(k))
	}
	_, err := f.PessimisticRollback(f.t.Context(), req)
	require.NoError(f.t, err)
}

// gateFS is a file system whose writes to the log wait as long as the gate is shut.
func gateFS() (fs vfs.FS, shut, open func()) {
	var mu sync.Mutex
	cond := sync.NewCond(&mu)
	closed := false
	set := func(c bool) func() {
		return func() {
			mu.Lock()
			defer mu.Unlock()
			closed = c
			cond.Broadcast()
		}
	}
	fs = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			for closed {
				cond.Wait()
			}
		}
		return nil
	}))
	return fs, set(true), set(false)
}

// TestReadersAndACommitOnItsWay checks who waits for a commit that is not durable yet, and who need not.
func TestReadersAndACommitOnItsWay(t *testing.T) {
	for _, onePhase := range []bool{true, false} {
		t.Run(fmt.Sprintf("onePhase=%t", onePhase), func(t *testing.T) {
			fs, shut, open := gateFS()
			f := newFixture(t, fs, Options{})
			f.set("k", "old")
			start := f.ts()
			if !onePhase {
				_, err := f.prewrite(start, false, putOf("k", "new"))
				require.NoError(t, err)
			}
			shut()
			done := make(chan error, 1)
			go func() {
				if onePhase {
					_, err := f.prewrite(start, true, putOf("k", "new"))
					done <- err
					return
				}
				resp, err := f.Commit(context.Background(), &kvrpcpb.CommitRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}, CommitVersion: f.ts()})
				if err == nil && resp.Error != nil {
					err = fmt.Errorf("%v", resp.Error)
				}
				done <- err
			}()
			require.Eventually(t, func() bool {
				l := f.table.blocking([]byte("k"))
				return l != nil && l.txn.commitTS.Load() != 0
			}, time.Minute, time.Millisecond)
			ts := f.ts()
			// A reader below the commit, and one that takes what is acknowledged, read the old value at once.
			for _, at := range []uint64{start, math.MaxUint64} {
				v, err := f.Snapshot(at, nil).Get(t.Context(), []byte("k"))
				require.NoError(t, err)
				require.Equal(t, "old", string(v))
			}
			// Readers above it wait, by key and by range, and so does the barrier.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := f.Snapshot(ts, nil).Get(ctx, []byte("k"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, f.Barrier(ctx, ts), context.DeadlineExceeded)
			// A range without the key does not care.
			none := func(_, _ []byte) (bool, error) { return true, nil }
			require.NoError(t, f.Snapshot(ts, nil).Scan(t.Context(), []byte("l"), nil, false, none))
			var got string
			scanned := make(chan error, 1)
			go func() {
				scanned <- f.Snapshot(ts, nil).Scan(context.Background(), []byte("a"), []byte("z"), false, func(_, v []byte) (bool, error) {
					got = string(v)
					return true, nil
				})
			}()
			open()
			require.NoError(t, <-done)
			require.NoError(t, <-scanned)
			require.Equal(t, "new", got)
			require.Zero(t, f.Locks())
		})
	}
}

// TestUndetermined checks that no reader sees a commit whose outcome is unknown.
func TestUndetermined(t *testing.T) {
	var broken atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return errorfs.ErrInjected
		}
		return nil
	}))
	f := newFixture(t, fs, Options{})
	before := f.set("k", "1")
	broken.Store(true)
	start := f.ts()
	_, err := f.prewrite(start, true, putOf("k", "2"))
	require.ErrorIs(t, err, kv.ErrResultUndetermined)
	_, err = f.prewrite(start, true, putOf("k", "2"))
	require.ErrorIs(t, err, kv.ErrResultUndetermined, "asking again does not help")
	v, err := f.Snapshot(before, nil).Get(t.Context(), []byte("k"))
	require.NoError(t, err)
	require.Equal(t, "1", string(v))
	v, err = f.Snapshot(math.MaxUint64, nil).Get(t.Context(), []byte("k"))
	require.NoError(t, err)
	require.Equal(t, "1", string(v))
	_, err = f.Snapshot(f.store.LastTS(), nil).Get(t.Context(), []byte("k"))
	require.ErrorIs(t, err, kv.ErrResultUndetermined)
	_, err = f.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}})
	require.ErrorIs(t, err, kv.ErrResultUndetermined)
	// What comes later is refused, and leaves nothing.
	next := f.store.LastTS() + 1
	resp, err := f.prewrite(next, true, putOf("other", "2"))
	require.NoError(t, err)
	require.Contains(t, resp.Errors[0].Abort, "commit failed")
	require.Nil(t, f.table.get([]byte("other")))
}

// TestFailedOnePhaseCommitRestoresLocks checks that a one-phase commit which cannot be written leaves the locks that were there before.
func TestFailedOnePhaseCommitRestoresLocks(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{})
	start := f.ts()
	_, err := f.lock(start, "a")
	require.NoError(t, err)
	resp, err := f.Prewrite(t.Context(), &kvrpcpb.PrewriteRequest{
		// The store refuses the second key.
		Mutations: []*kvrpcpb.Mutation{putOf("a", "1"), putOf("\xffb", "1")}, PrimaryLock: []byte("a"),
		StartVersion: start, ForUpdateTs: start, LockTtl: 1e6, TryOnePc: true,
		PessimisticActions: []kvrpcpb.PrewriteRequest_PessimisticAction{kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK, 0},
	})
	require.NoError(t, err)
	require.Contains(t, resp.Errors[0].Abort, "reserved")
	require.Equal(t, 1, f.Locks())
	require.True(t, f.table.get([]byte("a")).pessimistic())
	require.Empty(t, slices.Collect(f.active.all()))
	f.unlock(start, "a")
	require.Zero(t, f.Locks())
}

func TestTxnSizeLimit(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{TxnSizeLimit: 100})
	start := f.ts()
	resp, err := f.prewrite(start, false, putOf("a", strings.Repeat("x", 60)))
	require.NoError(t, err)
	require.Empty(t, resp.Errors)
	resp, err = f.prewrite(start, false, putOf("b", strings.Repeat("x", 60)))
	require.NoError(t, err)
	require.Contains(t, resp.Errors[0].Abort, kv.ErrTxnTooLarge.Error())
	resp, err = f.prewrite(start, false, putOf("c", strings.Repeat("x", 200)))
	require.NoError(t, err)
	require.Contains(t, resp.Errors[0].Abort, kv.ErrTxnTooLarge.Error())
}

// TestDeadlockByHandOver checks that a circle is found which closes because a key changes hands.
func TestDeadlockByHandOver(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{MaxLockWait: time.Minute})
	holder, mid, last := f.ts(), f.ts(), f.ts()
	for start, key := range map[uint64]string{holder: "k", last: "other"} {
		resp, err := f.lock(start, key)
		require.NoError(t, err)
		require.Empty(t, resp.Errors)
	}
	// mid waits for both keys at once; last waits for k behind mid.
	type result struct {
		who  string
		resp *kvrpcpb.PessimisticLockResponse
		err  error
	}
	results := make(chan result, 3)
	ask := func(who string, start uint64, key string) {
		waiting := len(f.LockWaits())
		go func() {
			resp, err := f.lock(start, key)
			results <- result{who, resp, err}
		}()
		require.Eventually(t, func() bool { return len(f.LockWaits()) > waiting }, time.Minute, time.Millisecond)
	}
	ask("mid k", mid, "k")
	ask("mid other", mid, "other")
	ask("last k", last, "k")
	f.unlock(holder, "k")
	// mid gets k, so that last waits for mid and mid for last; which of the two gets the deadlock error is left open.
	answers := make(map[string]*kvrpcpb.PessimisticLockResponse)
	for range 2 {
		r := <-results
		require.NoError(t, r.err)
		answers[r.who] = r.resp
	}
	require.Contains(t, answers, "mid k")
	require.Empty(t, answers["mid k"].Errors)
	delete(answers, "mid k")
	for who, resp := range answers {
		require.Len(t, resp.Errors, 1, who)
		require.NotNil(t, resp.Errors[0].GetDeadlock(), who)
	}
	if answers["mid other"] != nil { // then last waits for k
		f.unlock(mid, "k")
	} else {
		f.unlock(last, "other")
	}
	r := <-results
	require.NoError(t, r.err)
	for _, e := range r.resp.Errors {
		require.NotNil(t, e.GetDeadlock(), "both may get it")
	}
	f.unlock(mid, "k", "other")
	f.unlock(last, "k", "other")
	require.Zero(t, f.Locks())
}

// TestOptimisticPrewriteIsTheVictim checks that of two optimistic transactions which are in each other's way the younger one fails
// soon, and the other goes on.
func TestOptimisticPrewriteIsTheVictim(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{MaxLockWait: time.Minute})
	older, younger := f.ts(), f.ts()
	for start, key := range map[uint64]string{older: "a", younger: "b"} {
		resp, err := f.prewrite(start, false, putOf(key, "1"))
		require.NoError(t, err)
		require.Empty(t, resp.Errors)
	}
	first := make(chan *kvrpcpb.PrewriteResponse, 1)
	go func() {
		resp, _ := f.prewrite(older, false, putOf("b", "1"))
		first <- resp
	}()
	resp, err := f.prewrite(younger, false, putOf("a", "1"))
	require.NoError(t, err)
	require.NotNil(t, resp.Errors[0].GetConflict())
	_, err = f.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: younger, Keys: [][]byte{[]byte("b")}})
	require.NoError(t, err)
	require.Empty(t, (<-first).Errors)
}

// lazily commits a pessimistic transaction's first step: a key that it has locked, and one that it looks at only now.
func (f *fixture) lazily(start uint64, locked, lazy string) (*kvrpcpb.PrewriteResponse, error) {
	return f.Prewrite(f.t.Context(), &kvrpcpb.PrewriteRequest{
		Mutations:    []*kvrpcpb.Mutation{putOf(locked, "1"), {Op: kvrpcpb.Op_Insert, Key: []byte(lazy), Value: []byte("1")}},
		PrimaryLock:  []byte(locked),
		StartVersion: start,
		ForUpdateTs:  start,
		LockTtl:      1e6,
		PessimisticActions: []kvrpcpb.PrewriteRequest_PessimisticAction{
			kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK, kvrpcpb.PrewriteRequest_DO_CONSTRAINT_CHECK,
		},
	})
}

// TestLazyCommitIsTheVictim checks that of two pessimistic transactions which commit, and each of which has locked what the
// other checks lazily, the younger one fails soon, and the other goes on.
func TestLazyCommitIsTheVictim(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{MaxLockWait: time.Minute})
	older, younger := f.ts(), f.ts()
	for start, key := range map[uint64]string{older: "a", younger: "b"} {
		resp, err := f.lock(start, key)
		require.NoError(t, err)
		require.Empty(t, resp.Errors)
	}
	first := make(chan *kvrpcpb.PrewriteResponse, 1)
	go func() {
		resp, _ := f.lazily(older, "a", "b")
		first <- resp
	}()
	resp, err := f.lazily(younger, "b", "a")
	require.NoError(t, err)
	require.Equal(t, kvrpcpb.WriteConflict_LazyUniquenessCheck, resp.Errors[0].GetConflict().GetReason())
	f.unlock(younger, "b")
	require.Empty(t, (<-first).Errors)
}

// TestLazyCommitFindsTheDeadlock checks that a statement which waits for a lock gets the error of the deadlock that a
// lazily checked commit closes.
func TestLazyCommitFindsTheDeadlock(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{MaxLockWait: time.Minute})
	committer, locker := f.ts(), f.ts()
	for start, key := range map[uint64]string{committer: "a", locker: "b"} {
		resp, err := f.lock(start, key)
		require.NoError(t, err)
		require.Empty(t, resp.Errors)
	}
	answers := make(chan *kvrpcpb.PessimisticLockResponse, 1)
	go func() {
		resp, _ := f.lock(locker, "a")
		f.unlock(locker, "b")
		answers <- resp
	}()
	require.Eventually(t, func() bool { return len(f.LockWaits()) > 0 }, time.Minute, time.Millisecond)
	resp, err := f.lazily(committer, "a", "b")
	require.NoError(t, err)
	require.Empty(t, resp.Errors)
	require.NotNil(t, (<-answers).Errors[0].GetDeadlock())
}

// TestLatchWaitTimesOut: a commit that the disk keeps from reaching the engine holds the latches of its keys.
// Requests for keys that fall on those fail with a retryable error, and change nothing.
func TestLatchWaitTimesOut(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{MaxLockWait: time.Millisecond})
	held, ok := f.table.latch(t.Context(), time.Minute, 1, func(int) []byte { return []byte("a") })
	require.True(t, ok)
	other := "b" // a key with another latch
	for n := 0; f.table.stripe([]byte(other)) == f.table.stripe([]byte("a")); n++ {
		other = fmt.Sprint("b", n)
	}
	start := f.ts()
	locked, err := f.lock(start, "a")
	require.NoError(t, err)
	require.NotNil(t, locked.RegionError.GetServerIsBusy())
	prewritten, err := f.prewrite(start, true, putOf(other, "1"), putOf("a", "1"))
	require.NoError(t, err)
	require.NotNil(t, prewritten.RegionError.GetServerIsBusy())
	ended, end := context.WithCancel(t.Context())
	end()
	_, ok = f.table.latch(ended, time.Hour, 1, func(int) []byte { return []byte("a") })
	require.False(t, ok)
	require.Zero(t, f.Locks())
	_, ok = f.table.latch(t.Context(), time.Minute, 1, func(int) []byte { return []byte(other) })
	require.True(t, ok, "what was latched before was given back")
	held.release()
	require.Empty(t, f.mustLock("a").Errors)
}

// TestKnownRollbackIsReported: a transaction is rolled back while it is away, and many others commit.
func TestKnownRollbackIsReported(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{})
	start := f.ts()
	_, err := f.prewrite(start, false, putOf("a", "v"))
	require.NoError(t, err)
	commitTS := f.ts()
	_, err = f.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: [][]byte{[]byte("a")}})
	require.NoError(t, err)
	forgotten := func(ts uint64) bool { return f.registry.mayHaveForgotten(ts) }
	for ts := start + 1; !forgotten(start) || !forgotten(start-1) || !forgotten(start-2); ts++ {
		f.registry.end(&transaction{startTS: ts}, outcome{ended: true, commitTS: ts + 1})
	}
	resp, err := f.Commit(t.Context(), &kvrpcpb.CommitRequest{StartVersion: start, CommitVersion: commitTS, Keys: [][]byte{[]byte("a")}})
	require.NoError(t, err)
	require.NotNil(t, resp.Error)

	// One that may have committed before is not known to be rolled back, though nothing of it can commit any more.
	_, err = f.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start - 1, Keys: [][]byte{[]byte("b")}})
	require.NoError(t, err)
	_, err = f.Commit(t.Context(), &kvrpcpb.CommitRequest{StartVersion: start - 1, CommitVersion: commitTS, Keys: [][]byte{[]byte("b")}})
	require.ErrorIs(t, err, kv.ErrResultUndetermined)

	// Nor if a late request of it has taken a lock meanwhile.
	_, err = f.PessimisticLock(t.Context(), &kvrpcpb.PessimisticLockRequest{
		StartVersion: start - 2, ForUpdateTs: f.ts(), PrimaryLock: []byte("c"), LockTtl: 3000,
		Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_PessimisticLock, Key: []byte("c")}},
	})
	require.NoError(t, err)
	_, err = f.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start - 2, Keys: [][]byte{[]byte("c")}})
	require.NoError(t, err)
	_, err = f.Commit(t.Context(), &kvrpcpb.CommitRequest{StartVersion: start - 2, CommitVersion: commitTS, Keys: [][]byte{[]byte("c")}})
	require.ErrorIs(t, err, kv.ErrResultUndetermined)
}

func TestLockRecords(t *testing.T) {
	var r lockRecords
	for ts := uint64(1); ts <= 10*maxLockRecords; ts++ {
		r.add(fmt.Append(nil, ts), ts)
		require.LessOrEqual(t, len(r.newest), maxLockRecords)
		require.Equal(t, ts, r.after(fmt.Append(nil, ts), ts-1))
		require.Zero(t, r.after(fmt.Append(nil, ts), ts))
	}
	// What was forgotten conflicts with all transactions that began before.
	require.NotZero(t, r.forgotten)
	require.Equal(t, r.forgotten, r.after([]byte("any"), 1))
	require.Zero(t, r.after([]byte("any"), r.forgotten))

	// Long keys are forgotten earlier.
	long := bytes.Repeat([]byte("k"), 3000)
	for ts := uint64(100_000); ts < 100_020; ts++ {
		key := fmt.Appendf(long, "%d", ts)
		r.add(key, ts)
		require.Equal(t, ts, r.after(key, ts-1))
		size := 0
		for key := range r.newest {
			size += len(key)
		}
		require.LessOrEqual(t, size, maxRecordBytes)
		require.Equal(t, size, r.bytes)
	}
	r.add(make([]byte, 2*maxRecordBytes), 200_000)
	require.Len(t, r.newest, 1)
}

func TestRegistryIsBounded(t *testing.T) {
	r := newRegistry(0)
	const limit = 8
	for i := range r.shards {
		r.shards[i].commits.limit, r.shards[i].rollbacks.limit = limit, limit
	}
	const n = 10 * numShards * limit
	for ts := uint64(1); ts <= n; ts++ {
		if ts%2 == 0 {
			_, o := r.rollbackUnknown(ts << physicalBits)
			require.False(t, o.ended)
			continue
		}
		r.end(&transaction{startTS: ts << physicalBits}, outcome{ended: true, commitTS: ts<<physicalBits + 1})
	}
	for i := range r.shards {
		sh := &r.shards[i]
		require.LessOrEqual(t, len(sh.commits.current)+len(sh.commits.previous), 2*limit)
		require.LessOrEqual(t, len(sh.rollbacks.current)+len(sh.rollbacks.previous), 2*limit)
		require.NotEmpty(t, sh.commits.current, "timestamps are spread over the shards")
	}
	_, o := r.find(n << physicalBits)
	require.Equal(t, outcome{ended: true}, o)
	_, o = r.find((n - 1) << physicalBits)
	require.True(t, o.committed())
	_, o = r.find(1 << physicalBits)
	require.False(t, o.ended, "long ago")
}

// TestTransactionsFromBeforeOpenConflict checks that transactions which began before the store was opened conflict with everything, since
// locks of that time are forgotten.
func TestTransactionsFromBeforeOpenConflict(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{})
	resp, err := f.prewrite(f.table.stripes[0].records.forgotten-1, true, putOf("k", "1"))
	require.NoError(t, err)
	require.NotNil(t, resp.Errors[0].GetConflict())
}

func TestEngineOptions(t *testing.T) {
	for _, opts := range []Options{{MaxLockWait: -1}, {TxnSizeLimit: -1}, {LockMemory: -1}} {
		_, err := New(nil, opts)
		require.Error(t, err)
	}
}

// BenchmarkOnePhase measures small transactions, synced to a file system in memory, on several goroutines.
func BenchmarkOnePhase(b *testing.B) {
	store, err := pebblekv.Open("db", pebblekv.Options{FS: vfs.NewMem()})
	require.NoError(b, err)
	defer func() { require.NoError(b, store.Close()) }()
	e, err := New(store, Options{})
	require.NoError(b, err)
	var n atomic.Uint64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			start, err := store.CurrentTS(b.Context())
			if err != nil {
				b.Error(err)
				return
			}
			id := n.Add(1)
			var muts []*kvrpcpb.Mutation
			for i := range 4 {
				muts = append(muts, &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: fmt.Appendf(nil, "k%d/%d", id%1e5, i), Value: make([]byte, 100)})
			}
			resp, err := e.Prewrite(b.Context(), &kvrpcpb.PrewriteRequest{
				Mutations: muts, PrimaryLock: muts[0].Key, StartVersion: start, LockTtl: 1e6, TryOnePc: true,
			})
			if err != nil || len(resp.Errors) > 0 {
				b.Error(resp, err)
				return
			}
		}
	})
}

// BenchmarkGet measures point reads.
func BenchmarkGet(b *testing.B) {
	store, err := pebblekv.Open("db", pebblekv.Options{FS: vfs.NewMem()})
	require.NoError(b, err)
	defer func() { require.NoError(b, store.Close()) }()
	e, err := New(store, Options{})
	require.NoError(b, err)
	a, err := store.Apply(b.Context(), func(yield func(key, value []byte) bool) {
		for i := range 10000 {
			yield(fmt.Appendf(nil, "k%d", i), make([]byte, 100))
		}
	}, pebblekv.ApplyOptions{})
	require.NoError(b, err)
	require.NoError(b, a.Wait())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := e.Snapshot(math.MaxUint64, nil).Get(b.Context(), fmt.Appendf(nil, "k%d", i%10000)); err != nil {
			b.Fatal(err)
		}
	}
}
