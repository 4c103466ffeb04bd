package txn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
)

// A waiter that was woken and cannot lock the key after all hands it on to the next one.
func TestWaiterThatFailsHandsTheKeyOn(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{MaxLockWait: time.Minute})
	holder := f.ts()
	resp, err := f.lock(holder, "k")
	require.NoError(t, err)
	require.Empty(t, resp.Errors)
	answers := make(chan *kvrpcpb.PessimisticLockResponse, 2)
	for waiting := range 2 {
		start := f.ts()
		go func() {
			resp, _ := f.lock(start, "k")
			answers <- resp
		}()
		require.Eventually(t, func() bool { return len(f.LockWaits()) > waiting }, time.Minute, time.Millisecond)
	}
	_, err = f.Prewrite(t.Context(), &kvrpcpb.PrewriteRequest{
		Mutations: []*kvrpcpb.Mutation{putOf("k", "1")}, PrimaryLock: []byte("k"), StartVersion: holder, ForUpdateTs: holder, LockTtl: 1e6, TryOnePc: true,
		PessimisticActions: []kvrpcpb.PrewriteRequest_PessimisticAction{kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK},
	})
	require.NoError(t, err)
	for range 2 {
		resp := <-answers
		require.Len(t, resp.Errors, 1)
		require.NotNil(t, resp.Errors[0].Conflict, "it was never woken: %v", resp.Errors[0])
	}
	require.Zero(t, f.Locks())
}

// A transaction whose commit readers have made too late once is not made too late again before it had the time to come again.
func TestReadersWaitForRefusedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		txn := newTransaction(nil, 10)
		timeout, err := txn.pushAbove(20)
		require.NoError(t, err)
		require.Zero(t, timeout)
		txn.locks["k"] = &lock{terms: &terms{txn: txn, primary: []byte("k")}, key: []byte("k"), op: kvrpcpb.Op_Put}
		refused, _ := txn.beginCommit(15, [][]byte{[]byte("k")})
		require.EqualValues(t, 21, refused.GetCommitTsExpired().GetMinCommitTs())

		time.Sleep(pushedGrace - time.Millisecond)
		timeout, err = txn.pushAbove(30)
		require.NoError(t, err)
		require.Equal(t, time.Millisecond, timeout, "a reader pushes what was refused just now")
		require.EqualValues(t, 21, txn.lowestCommitTS())
		time.Sleep(timeout)
		timeout, err = txn.pushAbove(30)
		require.NoError(t, err)
		require.Zero(t, timeout)
		require.EqualValues(t, 31, txn.lowestCommitTS())
	})
}
