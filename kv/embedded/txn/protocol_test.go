package txn

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"fastddl/kv/pebblekv"
)

// openProtocol opens an empty store, which is closed when the test ends.
func openProtocol(t *testing.T, fs vfs.FS) *bank {
	b := openBank(t, fs)
	t.Cleanup(func() { require.NoError(t, b.store.Close()) })
	return b
}

// prewriteOf is an optimistic prewrite whose primary key is that of the first mutation. A mutation without a value is a
// deletion.
func prewriteOf(start uint64, pairs ...string) *kvrpcpb.PrewriteRequest {
	req := &kvrpcpb.PrewriteRequest{PrimaryLock: []byte(pairs[0]), StartVersion: start, LockTtl: 60_000}
	for i := 0; i < len(pairs); i += 2 {
		m := &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: []byte(pairs[i]), Value: []byte(pairs[i+1])}
		if pairs[i+1] == "" {
			m.Op, m.Value = kvrpcpb.Op_Del, nil
		}
		req.Mutations = append(req.Mutations, m)
	}
	return req
}

// write commits pairs in one phase, and returns the timestamp.
func (b *bank) write(pairs ...string) (commitTS uint64) {
	b.t.Helper()
	req := prewriteOf(b.ts(), pairs...)
	req.TryOnePc = true
	return b.prewritten(req).OnePcCommitTs
}

// prewritten sends a prewrite that must succeed.
func (b *bank) prewritten(req *kvrpcpb.PrewriteRequest) *kvrpcpb.PrewriteResponse {
	b.t.Helper()
	resp, err := b.engine.Prewrite(context.Background(), req)
	require.NoError(b.t, err)
	require.Empty(b.t, resp.Errors)
	return resp
}

// commitKey commits a transaction by one of its keys.
func (b *bank) commitKey(start, commitTS uint64, key string) *kvrpcpb.KeyError {
	b.t.Helper()
	resp, err := b.engine.Commit(context.Background(), &kvrpcpb.CommitRequest{
		StartVersion: start, Keys: [][]byte{[]byte(key)}, CommitVersion: commitTS,
	})
	require.NoError(b.t, err)
	return resp.Error
}

// reads are all ways of reading key k at a timestamp. Barrier shows nothing.
var reads = map[string]func(ctx context.Context, e *Engine, ts uint64) (string, error){
	"get": func(ctx context.Context, e *Engine, ts uint64) (string, error) {
		v, err := e.Snapshot(ts, nil).Get(ctx, []byte("k"))
		return string(v), err
	},
	"batch get": func(ctx context.Context, e *Engine, ts uint64) (value string, err error) {
		err = e.Snapshot(ts, nil).BatchGet(ctx, [][]byte{[]byte("k")}, func(_, v []byte) { value = string(v) })
		return value, err
	},
	"scan": func(ctx context.Context, e *Engine, ts uint64) (value string, err error) {
		err = e.Snapshot(ts, nil).Scan(ctx, nil, nil, false, func(_, v []byte) (bool, error) {
			value = string(v)
			return true, nil
		})
		return value, err
	},
	"barrier": func(ctx context.Context, e *Engine, ts uint64) (string, error) { return "", e.Barrier(ctx, ts) },
}

// A transaction that is prewritten cannot commit at or below the timestamp of a reader any more.
func TestReadersPushPrewrittenTransactions(t *testing.T) {
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			b := openProtocol(t, vfs.NewMem())
			start := b.ts()
			b.prewritten(prewriteOf(start, "k", "1"))
			early, at := b.ts(), b.ts()
			v, err := read(t.Context(), b.engine, at)
			require.NoError(t, err)
			require.Empty(t, v)
			for _, ts := range []uint64{early, at} {
				expired := b.commitKey(start, ts, "k").GetCommitTsExpired()
				require.NotNil(t, expired, "committed at %d, which was read at %d", ts, at)
				require.Greater(t, expired.MinCommitTs, at, "it may commit at a timestamp that was read")
			}
			require.Nil(t, b.commitKey(start, b.ts(), "k"))
			again, err := b.engine.Snapshot(at, nil).Get(t.Context(), []byte("k"))
			require.NoError(t, err)
			require.Empty(t, again, "what was read at one timestamp has changed")
		})
	}
}

// slowLog is a file system on which the log is not synced while slow is set, until release is called. Syncing receives a
// value for each sync that waits.
func slowLog() (fs vfs.FS, slow *atomic.Bool, syncing chan struct{}, release func()) {
	slow, syncing = new(atomic.Bool), make(chan struct{}, 100)
	goOn := make(chan struct{})
	fs = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		syncs := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if syncs && slow.Load() && filepath.Ext(op.Path) == ".log" {
			syncing <- struct{}{}
			<-goOn
		}
		return nil
	}))
	return fs, slow, syncing, sync.OnceFunc(func() {
		slow.Store(false)
		close(goOn)
	})
}

// Readers above a commit that is on its way to the disk wait for it, in one phase and in two: no reader sees what may be
// lost, and none misses it.
func TestReadersWaitForTheDisk(t *testing.T) {
	for _, phases := range []string{"one phase", "two phases"} {
		for name, read := range reads {
			t.Run(phases+" "+name, func(t *testing.T) {
				fs, slow, syncing, release := slowLog()
				b := openProtocol(t, fs)
				defer release()
				start := b.ts()
				req := prewriteOf(start, "k", "1")
				commit := func() error {
					_, err := b.engine.Prewrite(context.Background(), req)
					return err
				}
				if req.TryOnePc = phases == "one phase"; !req.TryOnePc {
					b.prewritten(req)
					commitTS := b.ts()
					commit = func() error {
						_, err := b.engine.Commit(context.Background(), &kvrpcpb.CommitRequest{
							StartVersion: start, Keys: [][]byte{[]byte("k")}, CommitVersion: commitTS,
						})
						return err
					}
				}
				slow.Store(true)
				result := make(chan error, 1)
				go func() { result <- commit() }()
				<-syncing
				at := b.ts()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				v, err := read(ctx, b.engine, at)
				require.ErrorIs(t, err, context.DeadlineExceeded, "read %q before it was durable", v)
				release()
				require.NoError(t, <-result)
				after, err := b.engine.Snapshot(at, nil).Get(t.Context(), []byte("k"))
				require.NoError(t, err)
				require.Equal(t, "1", string(after))
			})
		}
	}
}

// A request that comes late, after its transaction was rolled back, locks nothing.
func TestLateRequestsOfRolledBackTransactions(t *testing.T) {
	for _, known := range []bool{true, false} {
		b := openProtocol(t, vfs.NewMem())
		start := b.ts()
		if known {
			b.prewritten(prewriteOf(start, "k", "1"))
		}
		_, err := b.engine.BatchRollback(t.Context(), &kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}})
		require.NoError(t, err)
		resp, err := b.engine.Prewrite(t.Context(), prewriteOf(start, "k", "1"))
		require.NoError(t, err)
		require.Len(t, resp.Errors, 1, "a transaction that was rolled back is prewritten")
		require.Equal(t, kvrpcpb.WriteConflict_SelfRolledBack, resp.Errors[0].GetConflict().GetReason())
		require.NotNil(t, b.commitKey(start, b.ts(), "k"))
		require.Zero(t, b.engine.Locks())
	}
}

// A pessimistic lock that is missing is made up for only if the key is unchanged since the transaction began.
func TestMissingLocksAreAmendedWithCare(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	b.write("changed", "1")
	for key, want := range map[string]bool{"changed": false, "left": true} {
		req := prewriteOf(start, key, "2")
		req.ForUpdateTs = start
		req.PessimisticActions = []kvrpcpb.PrewriteRequest_PessimisticAction{kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK}
		resp, err := b.engine.Prewrite(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, want, len(resp.Errors) == 0, "%s: %v", key, resp.Errors)
	}
}

// A transaction that was prewritten in several requests is one batch, whichever of its keys the commit names, and a
// deletion is a version like any other.
func TestOneTransactionIsOneBatch(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	b.prewritten(prewriteOf(start, "a", "1", "b", ""))
	second := prewriteOf(start, "c", "", "d", "2")
	second.PrimaryLock = []byte("a")
	b.prewritten(second)
	commitTS := b.ts()
	require.Nil(t, b.commitKey(start, commitTS, "a"))
	for key, value := range map[string]string{"a": "1", "b": "", "c": "", "d": "2"} {
		versions, err := b.store.Versions(t.Context(), []byte(key))
		require.NoError(t, err)
		want := pebblekv.Version{TS: commitTS}
		if value != "" {
			want.Value = []byte(value)
		}
		require.Equal(t, []pebblekv.Version{want}, versions, "key %s", key)
	}
}

// A key that a transaction has only locked leaves no version; it is in the way of older transactions all the same.
func TestConflictsWithWhatWasOnlyLocked(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	old, start := b.ts(), b.ts()
	req := prewriteOf(start, "k", "1")
	req.Mutations[0].Op, req.Mutations[0].Value = kvrpcpb.Op_Lock, nil
	b.prewritten(req)
	require.Nil(t, b.commitKey(start, b.ts(), "k"))
	resp, err := b.engine.Prewrite(t.Context(), prewriteOf(old, "k", "2"))
	require.NoError(t, err)
	require.Len(t, resp.Errors, 1)
	require.NotNil(t, resp.Errors[0].GetConflict())
}

// A client that gives up while its prewrite waits for a lock learns that nothing was
// written: in doubt, TiDB closes the session's connection.
func TestAbandonedPrewriteLeavesNoDoubt(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	first, err := b.store.CurrentTS(t.Context())
	require.NoError(t, err)
	b.prewritten(prewriteOf(first, "k", "1"))
	second, err := b.store.CurrentTS(t.Context())
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	req := prewriteOf(second, "k", "2")
	req.TryOnePc = true
	resp, err := b.engine.Prewrite(ctx, req)
	require.NoError(t, err)
	require.Len(t, resp.Errors, 1)
	require.NotNil(t, resp.Errors[0].Locked)
}

// While a commit waits for the disk, requests that meet its lock return the lock in the end, so that the deadlines of the
// client count; none takes the transaction for dead.
func TestHangingCommitIsReportedAsLock(t *testing.T) {
	fs, slow, syncing, release := slowLog()
	b := openProtocol(t, fs)
	defer release()
	start := b.ts()
	b.prewritten(prewriteOf(start, "k", "1"))
	slow.Store(true)
	commitTS := b.ts()
	result := make(chan error, 1)
	go func() {
		_, err := b.engine.Commit(context.Background(), &kvrpcpb.CommitRequest{
			StartVersion: start, Keys: [][]byte{[]byte("k")}, CommitVersion: commitTS,
		})
		result <- err
	}()
	<-syncing

	for _, timeout := range []int64{0, 20, -1} { // as long as the store likes, 20 ms, not at all
		resp, err := b.engine.PessimisticLock(t.Context(), &kvrpcpb.PessimisticLockRequest{
			Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_PessimisticLock, Key: []byte("k")}},
			PrimaryLock:  []byte("k"),
			StartVersion: commitTS + 1,
			ForUpdateTs:  commitTS + 1,
			LockTtl:      1000,
			WaitTimeout:  timeout,
		})
		require.NoError(t, err)
		require.Len(t, resp.Errors, 1)
		require.NotNil(t, resp.Errors[0].Locked)
	}
	for _, onePhase := range []bool{false, true} {
		req := prewriteOf(commitTS+2, "k", "2")
		req.TryOnePc = onePhase
		resp, err := b.engine.Prewrite(t.Context(), req)
		require.NoError(t, err)
		require.Len(t, resp.Errors, 1)
		require.NotNil(t, resp.Errors[0].Locked)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		resp, err = b.engine.Prewrite(ctx, req)
		require.NoError(t, err, "given up, and without doubt")
		require.NotNil(t, resp.Errors[0].Locked)
	}
	inAnHour := commitTS + 3_600_000<<18
	status, err := b.engine.CheckTxnStatus(t.Context(), &kvrpcpb.CheckTxnStatusRequest{
		PrimaryKey: []byte("k"), LockTs: start, CurrentTs: inAnHour, RollbackIfNotExist: true,
	})
	require.NoError(t, err)
	require.Zero(t, status.CommitVersion)
	require.Equal(t, kvrpcpb.Action_NoAction, status.Action)
	require.Greater(t, status.LockTtl, uint64(3_600_000), "the client must not take it for expired")

	release()
	require.NoError(t, <-result)
	v, err := b.engine.Snapshot(b.ts(), nil).Get(t.Context(), []byte("k"))
	require.NoError(t, err)
	require.Equal(t, "1", string(v))
}
