package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/stretchr/testify/require"
	tikvkv "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/tikvrpc"
	pd "github.com/tikv/pd/client"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

func openMem(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open("db", Options{Pebble: pebblekv.Options{FS: fs}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// set commits pairs of keys and values through TiDB's storage.
func set(t *testing.T, s *Store, pairs ...string) {
	t.Helper()
	txn, err := s.Storage().Begin()
	require.NoError(t, err)
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(t, txn.Set(tidbkv.Key(pairs[i]), []byte(pairs[i+1])))
	}
	require.NoError(t, txn.Commit(t.Context()))
}

func TestReopen(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	set(t, s, "a", "1")
	ts, err := s.Builds().CurrentTS(t.Context())
	require.NoError(t, err)
	id, uuid := s.ID(), s.Storage().UUID()
	// A transaction that is only prewritten is gone afterwards.
	resp, err := s.service.KvPrewrite(t.Context(), &kvrpcpb.PrewriteRequest{
		Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: []byte("a"), Value: []byte("2")}},
		PrimaryLock:  []byte("a"),
		StartVersion: ts,
		LockTtl:      1e6,
	})
	require.NoError(t, err)
	require.Empty(t, resp.Errors)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())

	s = openMem(t, fs)
	require.Equal(t, id, s.ID())
	require.Equal(t, uuid, s.Storage().UUID())
	ver, err := s.Storage().CurrentVersion("global")
	require.NoError(t, err)
	require.Greater(t, ver.Ver, ts)
	require.Zero(t, s.service.engine.Locks())
	v, err := s.Storage().GetSnapshot(ver).Get(t.Context(), tidbkv.Key("a"))
	require.NoError(t, err)
	require.Equal(t, "1", string(v))
}

func TestClosed(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	client := s.Client()
	require.NoError(t, s.Storage().Close())
	require.NoError(t, s.Close())
	_, err := client.SendRequest(t.Context(), "", tikvrpc.NewRequest(tikvrpc.CmdGet, &kvrpcpb.GetRequest{Key: []byte("a")}), time.Second)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, client.Close())
	_, err = client.SendRequest(t.Context(), "", tikvrpc.NewRequest(tikvrpc.CmdGet, &kvrpcpb.GetRequest{Key: []byte("a")}), time.Second)
	require.ErrorIs(t, err, context.Canceled)
}

// TestNoTimeLeft: a request whose caller has no time left, or that fails without an answer, is given up. client-go must not
// take it for the sign of a store that is gone, since it refuses all requests of all sessions then.
func TestNoTimeLeft(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	set(t, s, "a", "1")
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	get := tikvrpc.NewRequest(tikvrpc.CmdGet, &kvrpcpb.GetRequest{Key: []byte("a")})
	_, err := s.Client().SendRequest(late, "", get, time.Second)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, context.Canceled, causeOf(t, err))
	_, err = s.Client().SendRequest(t.Context(), "", tikvrpc.NewRequest(tikvrpc.CmdRawGet, &kvrpcpb.RawGetRequest{}), time.Second)
	require.ErrorIs(t, err, errUnsupported)
	require.Equal(t, context.Canceled, causeOf(t, err))

	holder, err := s.Storage().Begin()
	require.NoError(t, err)
	defer func() { require.NoError(t, holder.Rollback()) }()
	ts, err := s.Builds().CurrentTS(t.Context())
	require.NoError(t, err)
	holder.SetOption(tidbkv.Pessimistic, true)
	require.NoError(t, holder.LockKeys(t.Context(), tikvkv.NewLockCtx(ts, tikvkv.LockAlwaysWait, time.Now()), tidbkv.Key("a")))
	waiter, err := s.Storage().Begin()
	require.NoError(t, err)
	defer func() { require.NoError(t, waiter.Rollback()) }()
	waiter.SetOption(tidbkv.Pessimistic, true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.Error(t, waiter.LockKeys(ctx, tikvkv.NewLockCtx(waiter.StartTS(), tikvkv.LockAlwaysWait, time.Now()), tidbkv.Key("a")))
	ver, err := s.Storage().CurrentVersion("global")
	require.NoError(t, err)
	for range 100 { // the store would be dialed beside them
		_, err = s.Storage().GetSnapshot(ver).Get(t.Context(), tidbkv.Key("a"))
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
	}
}

// causeOf is what client-go finds at the bottom of an error.
func causeOf(t *testing.T, err error) error {
	t.Helper()
	var c interface{ Cause() error }
	require.ErrorAs(t, err, &c)
	return c.Cause()
}

// TestNoTimeLeftForAResolve: client-go makes one of several requests to resolve a region's locks, and an error of its own
// for who does not wait for it.
func TestNoTimeLeftForAResolve(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	set(t, s, "a", "1")
	client := s.storage.GetTiKVClient()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	failed := 0
	for i := range 100 { // the answer may be there at once
		req := tikvrpc.NewRequest(tikvrpc.CmdResolveLock, &kvrpcpb.ResolveLockRequest{StartVersion: uint64(i + 1)})
		if _, err := client.SendRequest(late, "", req, time.Second); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, context.Canceled, causeOf(t, err))
			failed++
		}
	}
	require.NotZero(t, failed)
}

// TestBadRequests sends what no client sends: each gets an answer, and the store goes on.
func TestBadRequests(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	set(t, s, "a", "1")
	client := s.Client()
	ts, err := s.Builds().CurrentTS(t.Context())
	require.NoError(t, err)
	put := func(key, value string) *kvrpcpb.Mutation {
		return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: []byte(key), Value: []byte(value)}
	}
	for name, req := range map[string]*tikvrpc.Request{
		"nil mutation":    tikvrpc.NewRequest(tikvrpc.CmdPessimisticLock, &kvrpcpb.PessimisticLockRequest{Mutations: []*kvrpcpb.Mutation{nil}}),
		"no mutation":     tikvrpc.NewRequest(tikvrpc.CmdPessimisticLock, &kvrpcpb.PessimisticLockRequest{}),
		"reserved key":    tikvrpc.NewRequest(tikvrpc.CmdGet, &kvrpcpb.GetRequest{Key: []byte("\xff1"), Version: ts}),
		"reserved write":  tikvrpc.NewRequest(tikvrpc.CmdPrewrite, &kvrpcpb.PrewriteRequest{StartVersion: ts, Mutations: []*kvrpcpb.Mutation{put("\xff", "1")}}),
		"empty value":     tikvrpc.NewRequest(tikvrpc.CmdPrewrite, &kvrpcpb.PrewriteRequest{StartVersion: ts, Mutations: []*kvrpcpb.Mutation{put("b", "")}}),
		"bad action":      tikvrpc.NewRequest(tikvrpc.CmdPrewrite, &kvrpcpb.PrewriteRequest{StartVersion: ts, Mutations: []*kvrpcpb.Mutation{put("b", "1")}, PessimisticActions: make([]kvrpcpb.PrewriteRequest_PessimisticAction, 2)}),
		"commit nothing":  tikvrpc.NewRequest(tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{StartVersion: ts, CommitVersion: ts + 1}),
		"pipelined":       tikvrpc.NewRequest(tikvrpc.CmdFlush, &kvrpcpb.FlushRequest{}),
		"pipelined read":  tikvrpc.NewRequest(tikvrpc.CmdBufferBatchGet, &kvrpcpb.BufferBatchGetRequest{}),
		"flashback":       tikvrpc.NewRequest(tikvrpc.CmdFlashbackToVersion, &kvrpcpb.FlashbackToVersionRequest{}),
		"wrong mutation":  tikvrpc.NewRequest(tikvrpc.CmdPessimisticLock, &kvrpcpb.PessimisticLockRequest{Mutations: []*kvrpcpb.Mutation{put("b", "1")}}),
		"wrong operation": tikvrpc.NewRequest(tikvrpc.CmdPrewrite, &kvrpcpb.PrewriteRequest{StartVersion: ts, Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Rollback}}}),
	} {
		resp, err := client.SendRequest(t.Context(), "", req, time.Second)
		require.NoError(t, err, name)
		require.NotNil(t, resp.Resp, name)
		require.Regexp(t, "abort|error", fmt.Sprint(resp.Resp), name)
	}
	_, err = client.SendRequest(t.Context(), "", tikvrpc.NewRequest(tikvrpc.CmdRawGet, &kvrpcpb.RawGetRequest{}), time.Second)
	require.ErrorIs(t, err, errUnsupported)
	_, err = client.SendRequest(t.Context(), "", tikvrpc.NewRequest(tikvrpc.CmdPrewrite, &kvrpcpb.PrewriteRequest{Mutations: []*kvrpcpb.Mutation{nil}}), time.Second)
	require.ErrorContains(t, err, "panicked")
	set(t, s, "a", "2")
	require.Zero(t, s.service.engine.Locks())
}

// TestBuildsBarrier checks that after a scan at S no transaction can commit at or below S.
func TestBuildsBarrier(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	ctx := t.Context()
	start, err := s.Builds().CurrentTS(ctx)
	require.NoError(t, err)
	resp, err := s.service.KvPrewrite(ctx, &kvrpcpb.PrewriteRequest{
		Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: []byte("k"), Value: []byte("1")}},
		PrimaryLock:  []byte("k"),
		StartVersion: start,
		LockTtl:      1e6,
	})
	require.NoError(t, err)
	require.Empty(t, resp.Errors)
	early, err := s.Builds().CurrentTS(ctx)
	require.NoError(t, err)
	at, err := s.Builds().CurrentTS(ctx)
	require.NoError(t, err)
	snapshot, err := s.Builds().Snapshot(ctx, at)
	require.NoError(t, err)
	commit, err := s.service.KvCommit(ctx, &kvrpcpb.CommitRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}, CommitVersion: early})
	require.NoError(t, err)
	require.Equal(t, at+1, commit.Error.GetCommitTsExpired().GetMinCommitTs())
	late, err := s.Builds().CurrentTS(ctx)
	require.NoError(t, err)
	commit, err = s.service.KvCommit(ctx, &kvrpcpb.CommitRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}, CommitVersion: late})
	require.NoError(t, err)
	require.Nil(t, commit.Error)
	_, err = snapshot.Get(ctx, []byte("k"))
	require.ErrorIs(t, err, kv.ErrNotExist)
	require.NoError(t, snapshot.Close())
	require.NoError(t, s.Builds().Close())
	set(t, s, "k", "2")
}

// TestSafePointKV checks that what the GC worker keeps there survives.
func TestSafePointKV(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	require.NoError(t, s.storage.GetSafePointKV().Put("/p/a", "1"))
	require.NoError(t, s.storage.GetSafePointKV().Put("/p/b", "2"))
	require.NoError(t, s.Close())
	s = openMem(t, fs)
	v, err := s.storage.GetSafePointKV().Get("/p/a")
	require.NoError(t, err)
	require.Equal(t, "1", v)
	v, err = s.storage.GetSafePointKV().Get("/p/c")
	require.NoError(t, err)
	require.Empty(t, v)
	all, err := s.storage.GetSafePointKV().GetWithPrefix("/p/")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "/p/b", string(all[1].Key))
}

func TestOptions(t *testing.T) {
	_, err := Open("db", Options{Pebble: pebblekv.Options{FS: vfs.NewMem(), CacheBytes: -1}})
	require.Error(t, err)
	opts := Options{}
	opts.Txn.MaxLockWait = -1
	opts.Txn.TxnSizeLimit = -1
	err = opts.Validate()
	require.ErrorContains(t, err, "longest lock wait")
	require.ErrorContains(t, err, "size limit")
	require.False(t, errors.Is(err, kv.ErrClosed))
}

// The first statement after a start finds the regions that the data is large enough for.
func TestRegionsAfterAStart(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	value := make([]byte, 4<<20)
	rnd := rand.NewChaCha8([32]byte{})
	for i := range 60 {
		_, err := rnd.Read(value)
		require.NoError(t, err)
		set(t, s, fmt.Sprintf("k%03d", i), string(value))
	}
	require.NoError(t, s.Close())

	s = openMem(t, fs)
	all := []pd.KeyRange{{StartKey: []byte("k"), EndKey: []byte("l")}}
	regions, err := s.PDClient().BatchScanRegions(t.Context(), all, 100)
	require.NoError(t, err)
	require.Greater(t, len(regions), 1)
}
