package txn

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// lockAll locks n keys of four bytes for a pessimistic transaction, in one request.
func (f *fixture) lockAll(start uint64, n int, from int) *kvrpcpb.PessimisticLockResponse {
	req := &kvrpcpb.PessimisticLockRequest{PrimaryLock: []byte("0000"), StartVersion: start, ForUpdateTs: f.ts(), LockTtl: 1e6, WaitTimeout: -1}
	for i := range n {
		req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: kvrpcpb.Op_PessimisticLock, Key: fmt.Appendf(nil, "%04d", from+i)})
	}
	resp, err := f.PessimisticLock(f.t.Context(), req)
	require.NoError(f.t, err)
	return resp
}

// abort is why a request was aborted, "" if it was not.
func abort(errs []*kvrpcpb.KeyError) string {
	if len(errs) == 0 {
		return ""
	}
	return errs[0].Abort
}

// TestLockMemory: a transaction that has locked as much as there is memory for gets no more locks, and keeps those that it
// has; others, which have few, go on.
func TestLockMemory(t *testing.T) {
	const room = 1000
	f := newFixture(t, vfs.NewMem(), Options{LockMemory: room * memory(4)})
	tooMany := kv.ErrTooManyLocks.Error()
	large := f.ts()
	require.Empty(t, f.lockAll(large, room-1, 0).Errors)
	require.Contains(t, abort(f.lockAll(large, 2, room-1).Errors), tooMany)
	require.Equal(t, room-1, f.Locks(), "all of a request or none")
	require.Empty(t, f.lockAll(large, 1, room-1).Errors)
	require.Empty(t, f.lockAll(large, room, 0).Errors, "it has them")
	require.Contains(t, abort(f.lockAll(large, 1, room).Errors), tooMany)

	small := f.ts()
	require.Empty(t, f.lockAll(small, 1, 2000).Errors)
	require.Empty(t, f.lockAll(small, fewLocks-1, 2001).Errors)
	require.Contains(t, abort(f.lockAll(small, 1, 3000).Errors), tooMany)
	f.set("9999", "committed at once, and gone")

	// It commits what it has locked, and nothing beside, but for what must go on.
	write := func(key string, essential bool) *kvrpcpb.PrewriteResponse {
		req := &kvrpcpb.PrewriteRequest{
			Mutations: []*kvrpcpb.Mutation{putOf(key, "v")}, PrimaryLock: []byte("0000"), StartVersion: large, ForUpdateTs: large, LockTtl: 1e6,
			Context: &kvrpcpb.Context{},
		}
		if essential {
			req.Context.DiskFullOpt = kvrpcpb.DiskFullOpt_AllowedOnAlmostFull
		}
		resp, err := f.Prewrite(t.Context(), req)
		require.NoError(t, err)
		return resp
	}
	require.Empty(t, write("0000", false).Errors)
	require.Contains(t, abort(write("5000", false).Errors), tooMany)
	require.Empty(t, write("5000", true).Errors)

	for _, start := range []uint64{large, small} {
		_, err := f.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: [][]byte{[]byte("0000")}})
		require.NoError(t, err)
	}
	require.Zero(t, f.Locks())
	require.Zero(t, f.table.bytes.Load())
	require.Empty(t, f.lockAll(f.ts(), room, 0).Errors)
}

// TestMemoryOfLocksIsGivenBack: the maps of stripes that had many keys go when the last of these does.
func TestMemoryOfLocksIsGivenBack(t *testing.T) {
	table := newTable(0)
	owner := &terms{txn: newTransaction(nil, 10)}
	st := table.stripe([]byte("0"))
	var locks []*lock
	for i := 0; len(locks) < 2*fewKeys; i++ {
		if key := fmt.Append(nil, i); table.stripe(key) == st {
			locks = append(locks, &lock{terms: owner, key: key, op: kvrpcpb.Op_PessimisticLock})
		}
	}
	for round := range 2 {
		for _, l := range locks {
			table.put(l)
		}
		for i, l := range locks {
			require.Len(t, st.keys, len(locks)-i)
			table.remove(l, 0)
		}
		require.Nil(t, st.keys, "round %d", round)
	}
	table.put(locks[0])
	table.remove(locks[0], 0)
	require.NotNil(t, st.keys, "it is made once for those that come one by one")
	require.Zero(t, table.keys.Load())
	require.Zero(t, st.locked.Load())
}

// BenchmarkLockMemory measures what a pessimistic lock holds of the heap: a lock of a row, by the requests that client-go
// makes of a statement that locks many.
func BenchmarkLockMemory(b *testing.B) {
	const requests, keys = 1000, 500
	store, err := pebblekv.Open("db", pebblekv.Options{FS: vfs.NewMem()})
	require.NoError(b, err)
	defer func() { require.NoError(b, store.Close()) }()
	e, err := New(store, Options{})
	require.NoError(b, err)
	for b.Loop() {
		start, err := store.CurrentTS(b.Context())
		require.NoError(b, err)
		before := liveHeap()
		for i := range requests {
			req := &kvrpcpb.PessimisticLockRequest{PrimaryLock: []byte("t12345678_r00000000"), StartVersion: start, ForUpdateTs: start, LockTtl: 1e6}
			for j := range keys {
				req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: kvrpcpb.Op_PessimisticLock, Key: fmt.Appendf(nil, "t12345678_r%08d", i*keys+j)})
			}
			resp, err := e.PessimisticLock(b.Context(), req)
			require.NoError(b, err)
			require.Empty(b, resp.Errors)
		}
		b.ReportMetric(float64(liveHeap()-before)/requests/keys, "B/lock")
		_, err = e.PessimisticRollback(b.Context(), &kvrpcpb.PessimisticRollbackRequest{StartVersion: start, ForUpdateTs: math.MaxUint64})
		require.NoError(b, err)
		require.Zero(b, e.Locks())
		b.ReportMetric((float64(liveHeap())-float64(before))/requests/keys, "B/lock-left")
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
