package histories

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/internal/randtest"
	"fastddl/kv/embedded"
	"fastddl/kv/kvtest"
	"fastddl/kv/pebblekv"
)

// The races that the histories have found, each brought about as often as is needed to see it.

// requests sends single requests to a store, as client-go does, but not what would follow them.
type requests struct {
	t      *testing.T
	store  *embedded.Store
	client tikv.Client
}

func openStore(t *testing.T, fs vfs.FS) *requests {
	store, err := embedded.Open("db", embedded.Options{Pebble: pebblekv.Options{FS: fs}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &requests{t: t, store: store, client: store.Client()}
}

func (r *requests) ts() uint64 {
	ts, err := r.store.Builds().CurrentTS(context.Background())
	require.NoError(r.t, err)
	return ts
}

func (r *requests) send(kind tikvrpc.CmdType, req any) any {
	resp, err := r.client.SendRequest(context.Background(), "", tikvrpc.NewRequest(kind, req), time.Minute)
	require.NoError(r.t, err)
	return resp.Resp
}

func put(key, value string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: []byte(key), Value: []byte(value)}
}

func (r *requests) prewrite(start uint64, muts ...*kvrpcpb.Mutation) *kvrpcpb.PrewriteResponse {
	return r.send(tikvrpc.CmdPrewrite, &kvrpcpb.PrewriteRequest{
		Mutations: muts, PrimaryLock: muts[0].Key, StartVersion: start, LockTtl: 60_000,
	}).(*kvrpcpb.PrewriteResponse)
}

func (r *requests) commit(start, commit uint64, key string) *kvrpcpb.CommitResponse {
	return r.send(tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{
		StartVersion: start, CommitVersion: commit, Keys: [][]byte{[]byte(key)},
	}).(*kvrpcpb.CommitResponse)
}

// TestConflictsWithCommitsDuringThePrewrite: what is committed while a prewrite of many keys checks one after the other
// is a conflict for those it has not checked yet.
func TestConflictsWithCommitsDuringThePrewrite(t *testing.T) {
	r := openStore(t, vfs.NewMem())
	const keys = 20_000 // enough that the prewrite is interrupted on a single core, too
	rng := randtest.Rand(t)
	took := 10 * time.Millisecond // by the last prewrite
	rounds := 60
	if testing.Short() {
		rounds = 12
	}
	for round := range rounds {
		first, last := r.ts(), fmt.Sprintf("k%d/z", round)
		muts := make([]*kvrpcpb.Mutation, 0, keys+1)
		for i := range keys {
			muts = append(muts, put(fmt.Sprintf("k%d/%05d", round, i), "large"))
		}
		muts = append(muts, put(last, "large"))
		start := r.ts()
		require.Empty(t, r.prewrite(start, put(last, "small")).Errors)
		var both sync.WaitGroup
		var large *kvrpcpb.PrewriteResponse
		moment := time.Duration(rng.Int64N(int64(took))) // any of the checks
		begun := time.Now()
		both.Go(func() { large, took = r.prewrite(first, muts...), time.Since(begun) })
		time.Sleep(moment)
		require.Nil(t, r.commit(start, r.ts(), last).Error)
		both.Wait()
		require.NotEmpty(t, large.Errors, "a transaction that began before a commit has locked its key after it")
	}
}

// interrupted is a context that calls fn when it is asked for the at-th time whether it has ended.
type interrupted struct {
	context.Context
	asked, at int
	fn        func()
}

func (c *interrupted) Err() error {
	if c.asked++; c.asked == c.at {
		c.fn()
	}
	return c.Context.Err()
}

// TestNewestReadsAreDurable: a reader without a timestamp does not see a commit that is applied but not yet on the disk.
// After a crash it would not have happened, and the next reader would not see it either. The commit takes place at each
// of the moments at which the reading looks at its context.
func TestNewestReadsAreDurable(t *testing.T) {
	var disk sync.RWMutex
	r := openStore(t, &slowFS{kvtest.NewCrashableFS(), &atomic.Int64{}, &disk})
	read := func(ctx context.Context) string {
		req := tikvrpc.NewRequest(tikvrpc.CmdGet, &kvrpcpb.GetRequest{Key: []byte("k"), Version: math.MaxUint64})
		resp, err := r.client.SendRequest(ctx, "", req, time.Minute)
		require.NoError(t, err)
		return string(resp.Resp.(*kvrpcpb.GetResponse).Value)
	}
	interruptions := 0
	for at := 1; at < 10; at++ {
		before, start := read(t.Context()), r.ts()
		require.Empty(t, r.prewrite(start, put("k", fmt.Sprint(at))).Errors)
		commit, committed := r.ts(), make(chan struct{})
		disk.Lock()
		ctx := &interrupted{Context: t.Context(), at: at, fn: func() {
			interruptions++
			go func() {
				defer close(committed)
				assert.Nil(t, r.commit(start, commit, "k").Error)
			}()
			require.Eventually(t, func() bool { return r.applied("k", commit) }, time.Minute, 100*time.Microsecond)
		}}
		seen := read(ctx)
		disk.Unlock()
		require.Equal(t, before, seen, "what was committing when the reading looked for the %d. time whether it was to go on", at)
		if ctx.asked < at {
			break
		}
		<-committed
		require.Equal(t, fmt.Sprint(at), read(t.Context()))
	}
	require.GreaterOrEqual(t, interruptions, 2)
}

// applied says whether a version is in the store, durable or not.
func (r *requests) applied(key string, ts uint64) bool {
	resp := r.send(tikvrpc.CmdMvccGetByKey, &kvrpcpb.MvccGetByKeyRequest{Key: []byte(key)}).(*kvrpcpb.MvccGetByKeyResponse)
	return slices.ContainsFunc(resp.Info.Writes, func(w *kvrpcpb.MvccWrite) bool { return w.CommitTs == ts })
}

// TestNewestReadsAreNotBehindOthers: what a reader at a timestamp has seen, a later one without a timestamp sees as well,
// also while the locks of the commit are being removed, which are many.
func TestNewestReadsAreNotBehindOthers(t *testing.T) {
	r := openStore(t, vfs.NewMem())
	get := func(key string, ts uint64) (value int) {
		resp := r.send(tikvrpc.CmdGet, &kvrpcpb.GetRequest{Key: []byte(key), Version: ts}).(*kvrpcpb.GetResponse)
		_, _ = fmt.Sscan(string(resp.Value), &value)
		return value
	}
	const keys = 2000
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 3 {
		key := fmt.Sprintf("k%04d", i)
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				atLeast := get(key, r.ts())
				if newest := get(key, math.MaxUint64); newest < atLeast {
					t.Errorf("%s was %d, and %d afterwards", key, atLeast, newest)
					return
				}
			}
		})
	}
	for i := 1; i <= 15 && !t.Failed(); i++ {
		start := r.ts()
		var muts []*kvrpcpb.Mutation
		for k := range keys {
			muts = append(muts, put(fmt.Sprintf("k%04d", k), fmt.Sprint(i)))
		}
		require.Empty(t, r.prewrite(start, muts...).Errors)
		for commit := r.commit(start, r.ts(), "k0000"); commit.Error != nil; commit = r.commit(start, r.ts(), "k0000") {
			require.NotNil(t, commit.Error.CommitTsExpired, "a reader was faster")
		}
	}
	close(stop)
	readers.Wait()
}

// TestCommitThatWasForgottenIsNotDenied: a client whose commit was carried out, and whose answer a crash has lost, does not
// get the answer that it failed.
func TestCommitThatWasForgottenIsNotDenied(t *testing.T) {
	fs := vfs.NewMem()
	r := openStore(t, fs)
	start := r.ts()
	require.Empty(t, r.prewrite(start, put("k", "1")).Errors)
	commit := r.ts()
	require.Nil(t, r.commit(start, commit, "k").Error)
	require.NoError(t, r.store.Close())
	r = openStore(t, fs)
	resp, err := r.client.SendRequest(t.Context(), "", tikvrpc.NewRequest(tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{
		StartVersion: start, CommitVersion: commit, Keys: [][]byte{[]byte("k")},
	}), time.Minute)
	require.NoError(t, err, "its version is there, so that the answer is known")
	require.Nil(t, resp.Resp.(*kvrpcpb.CommitResponse).Error)
}

// TestUnansweredRequestEndsItsStream: over gRPC a request that cannot be answered fails at once, and those after it on the
// same connection are answered.
func TestUnansweredRequestEndsItsStream(t *testing.T) {
	c := newCluster(t, 0, true)
	client := tikv.NewRPCClient(tikv.WithCodec(tikv.NewCodecPDClient(tikv.ModeTxn, c.life.store.PDClient()).GetCodec()))
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	ctx := t.Context()
	const timeout = 10 * time.Minute // of the client, which must not be what ends it
	send := func(kind tikvrpc.CmdType, req any) error {
		_, err := client.SendRequest(ctx, c.life.address, tikvrpc.NewRequest(kind, req), timeout)
		return err
	}
	require.NoError(t, send(tikvrpc.CmdGet, &kvrpcpb.GetRequest{Key: []byte("k"), Version: math.MaxUint64}))
	// Sooner than the client gives up a connection on which nothing comes, after 40 seconds.
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	require.Error(t, send(tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{StartVersion: 1, CommitVersion: 2, Keys: [][]byte{[]byte("k")}}))
	require.NoError(t, ctx.Err(), "the request was left without an answer")
	ctx = t.Context()
	require.Eventually(t, func() bool {
		return send(tikvrpc.CmdGet, &kvrpcpb.GetRequest{Key: []byte("k"), Version: math.MaxUint64}) == nil
	}, time.Minute, 10*time.Millisecond)
}
