package txn

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestOnePhaseThatFallsBackKeepsItsValues: a one-phase commit that would pass MaxCommitTs falls back to a prewrite. Its locks
// keep copies of the values: the request's memory is the caller's again.
func TestOnePhaseThatFallsBackKeepsItsValues(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	req := prewriteOf(start, "k", "mine")
	req.TryOnePc, req.MaxCommitTs = true, b.ts()
	require.Zero(t, b.prewritten(req).OnePcCommitTs)
	copy(req.Mutations[0].Value, "lost")
	require.Nil(t, b.commitKey(start, b.ts(), "k"))
	v, err := b.engine.Snapshot(b.ts(), nil).Get(t.Context(), []byte("k"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(v))
}

// smallDisk is a file system in memory that reports free bytes of a disk of one GiB.
type smallDisk struct {
	vfs.FS
	free uint64
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: d.free, UsedBytes: 1<<30 - d.free}, nil
}

// TestEssentialTransactionsCommitOnAFullDisk: a prewrite with AllowedOnAlmostFull makes the second phase of its transaction
// possible on a nearly full disk as well.
func TestEssentialTransactionsCommitOnAFullDisk(t *testing.T) {
	b := openProtocol(t, &smallDisk{FS: vfs.NewMem(), free: 40 << 20})
	for opt, commits := range map[kvrpcpb.DiskFullOpt]bool{
		kvrpcpb.DiskFullOpt_NotAllowedOnFull: false, kvrpcpb.DiskFullOpt_AllowedOnAlmostFull: true,
	} {
		start := b.ts()
		req := prewriteOf(start, "k", "1")
		req.Context = &kvrpcpb.Context{DiskFullOpt: opt}
		b.prewritten(req)
		keyErr := b.commitKey(start, b.ts(), "k")
		if commits {
			require.Nil(t, keyErr, "a transaction that is allowed on a nearly full disk fails")
			continue
		}
		require.Contains(t, keyErr.GetAbort(), kv.ErrDiskFull.Error())
		_, err := b.engine.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}})
		require.NoError(t, err)
	}
}

// TestCommitPanics: a commit that panics fails like any other. The transaction is open again, and can be rolled back.
func TestCommitPanics(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	b.prewritten(prewriteOf(start, "k", "1"))
	txn, _ := b.engine.registry.find(start)
	txn.mu.Lock()
	txn.addBlock(keyBlock{[]byte("without a lock")})
	txn.mu.Unlock()
	require.NotPanics(t, func() {
		require.Contains(t, b.commitKey(start, b.ts(), "k").GetAbort(), "panic")
	})
	_, err := b.engine.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}})
	require.NoError(t, err)
	v, err := b.engine.Snapshot(b.ts(), nil).Get(t.Context(), []byte("k"))
	require.NoError(t, err)
	require.Empty(t, v)
}

// TestHeartbeatRaisesTheCommitTimestamp: the store refuses to commit a transaction below the MinCommitTs of its heartbeat.
func TestHeartbeatRaisesTheCommitTimestamp(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	b.prewritten(prewriteOf(start, "k", "1"))
	early := b.ts()
	lowest := b.ts()
	resp, err := b.engine.HeartBeat(t.Context(), &kvrpcpb.TxnHeartBeatRequest{
		PrimaryLock: []byte("k"), StartVersion: start, AdviseLockTtl: 60_000, MinCommitTs: lowest,
	})
	require.NoError(t, err)
	require.Nil(t, resp.Error)
	require.Equal(t, lowest, b.commitKey(start, early, "k").GetCommitTsExpired().GetMinCommitTs(), "it commits below the MinCommitTs of its heartbeat")
	require.Nil(t, b.commitKey(start, lowest, "k"))
}

// TestMvccByKeyDuringFallback: while one-phase commits fall back to prewrites, a concurrent MvccByKey reads no value that is
// being copied. The race detector checks it.
func TestMvccByKeyDuringFallback(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := f.MvccByKey(t.Context(), []byte("k")); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 300 {
		start := f.ts()
		resp, err := f.Prewrite(t.Context(), &kvrpcpb.PrewriteRequest{
			Mutations: []*kvrpcpb.Mutation{putOf("k", "v")}, PrimaryLock: []byte("k"), StartVersion: start, LockTtl: 1e6,
			TryOnePc: true, MaxCommitTs: start,
		})
		require.NoError(t, err)
		require.Zero(t, resp.OnePcCommitTs, "there is no room below the limit")
		_, err = f.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}})
		require.NoError(t, err)
	}
	close(stop)
	readers.Wait()
}
