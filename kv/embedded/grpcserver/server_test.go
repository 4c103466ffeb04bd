package grpcserver_test

import (
	"context"
	"math"
	"net"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/metapb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"

	"fastddl/kv/embedded"
	"fastddl/kv/embedded/grpcserver"
	"fastddl/kv/pebblekv"
)

// set commits pairs of keys and values through TiDB's storage.
func set(t *testing.T, s *embedded.Store, pairs ...string) {
	t.Helper()
	txn, err := s.Storage().Begin()
	require.NoError(t, err)
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(t, txn.Set(tidbkv.Key(pairs[i]), []byte(pairs[i+1])))
	}
	require.NoError(t, txn.Commit(t.Context()))
}

// remotePD is the store's PD as another process would see it: it names the address that the store is served at.
type remotePD struct {
	pd.Client
	address string
}

func (r remotePD) GetStore(ctx context.Context, id uint64) (*metapb.Store, error) {
	st, err := r.Client.GetStore(ctx, id)
	if err == nil {
		st.Address = r.address
	}
	return st, err
}

func (r remotePD) GetAllStores(ctx context.Context, opts ...pd.GetStoreOption) ([]*metapb.Store, error) {
	stores, err := r.Client.GetAllStores(ctx, opts...)
	for _, st := range stores {
		st.Address = r.address
	}
	return stores, err
}

// remoteStore opens a client-go store that reaches s over gRPC.
func remoteStore(t *testing.T, s *embedded.Store) *tikv.KVStore {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, served := grpcserver.New(s, zap.NewNop()), make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	codecPD := tikv.NewCodecPDClient(tikv.ModeTxn, remotePD{s.PDClient(), lis.Addr().String()})
	remote, err := tikv.NewKVStore("remote", codecPD, tikv.NewMockSafePointKV(), tikv.NewRPCClient(tikv.WithCodec(codecPD.GetCodec())))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, remote.Close()) })
	return remote
}

// TestGRPC runs transactions of another process beside those of this one, over several regions.
func TestGRPC(t *testing.T) {
	s, err := embedded.Open("db", embedded.Options{Pebble: pebblekv.Options{FS: vfs.NewMem()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	remote := remoteStore(t, s)
	ctx := t.Context()
	set(t, s, "a", "1", "z", "1")
	_, err = remote.SplitRegions(ctx, [][]byte{[]byte("m")}, false, nil)
	require.NoError(t, err)
	txn, err := remote.Begin()
	require.NoError(t, err)
	v, err := txn.Get(ctx, []byte("a"))
	require.NoError(t, err)
	require.Equal(t, "1", string(v))
	require.NoError(t, txn.Set([]byte("a"), []byte("2")))
	require.NoError(t, txn.Set([]byte("z"), []byte("2")))
	require.NoError(t, txn.Commit(ctx))
	ver, err := s.Storage().CurrentVersion("global")
	require.NoError(t, err)
	values, err := s.Storage().GetSnapshot(ver).BatchGet(ctx, []tidbkv.Key{tidbkv.Key("a"), tidbkv.Key("z")})
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"a": []byte("2"), "z": []byte("2")}, values)
	// And the other way, with a conflict.
	txn, err = remote.Begin()
	require.NoError(t, err)
	set(t, s, "a", "3")
	require.NoError(t, txn.Set([]byte("a"), []byte("4")))
	require.Error(t, txn.Commit(ctx))
	it, err := remote.GetSnapshot(math.MaxUint64).Iter([]byte("a"), nil)
	require.NoError(t, err)
	require.Equal(t, "3", string(it.Value()))
}
