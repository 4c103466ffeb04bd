package txn

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// A transaction that was to be committed at once, and is only prewritten because its time is over, keeps no memory of the
// request, which is the caller's again.
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

// smallDisk is a file system in memory that says how much of a disk of a gigabyte is free.
type smallDisk struct {
	vfs.FS
	free uint64
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: d.free, UsedBytes: 1<<30 - d.free}, nil
}

// Where the disk is nearly full a transaction that must go on commits in its second phase, too.
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
			require.Nil(t, keyErr, "what must go on does not")
			continue
		}
		require.Contains(t, keyErr.GetAbort(), kv.ErrDiskFull.Error())
		_, err := b.engine.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}})
		require.NoError(t, err)
	}
}

// A commit that panics has failed like any other: the transaction is open again, and can be rolled back.
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

// A heartbeat says above which timestamp its transaction will commit, and the store sees to it.
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
	require.Equal(t, lowest, b.commitKey(start, early, "k").GetCommitTsExpired().GetMinCommitTs(), "it commits below what its heartbeat said")
	require.Nil(t, b.commitKey(start, lowest, "k"))
}

// TestLocksAreLookedAtWhileTheyAreKept: who looks at locks meanwhile reads no value that is being copied.
func TestLocksAreLookedAtWhileTheyAreKept(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), Options{})
	stop := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
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
	looking.Wait()
}
