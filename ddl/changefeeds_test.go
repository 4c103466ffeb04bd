package ddl

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/pingcap/tidb/pkg/util/etcd"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// TestChangefeedOf: every changefeed counts that may take a statement some time, of all versions of TiCDC.
func TestChangefeedOf(t *testing.T) {
	const key = "/tidb/cdc/default/sales/changefeed/info/orders"
	for _, state := range []string{"normal", "running", "pending", "warning", "error", "failed", "stopped", "one of tomorrow's"} {
		require.Equal(t, "default/sales/orders", changefeedOf(key, []byte(`{"state":"`+state+`"}`)), state)
	}
	require.Equal(t, "default/sales/orders", changefeedOf(key, []byte("no JSON")))
	require.Equal(t, "orders", changefeedOf("/tidb/cdc/changefeed/info/orders", []byte("{}")))
	for _, state := range []string{"finished", "removed"} {
		require.Empty(t, changefeedOf(key, []byte(`{"state":"`+state+`"}`)), state)
	}
	for _, other := range []string{
		"/tidb/cdc/default/sales/changefeed/status/orders", "/tidb/cdc/default/__cdc_meta__/capture/1", "/tidb/cdc/meta/version",
		"/tidb/cdc/__backup__/6/changefeed/info/orders", "/tidb/cdc/__backup__/changefeed/info/orders",
	} {
		require.Empty(t, changefeedOf(other, []byte(`{"state":"normal"}`)), other)
	}
}

// ranges answers requests for the keys of a range, as etcd does.
type ranges struct {
	etcdserverpb.UnimplementedKVServer
	keys []string
}

func (r *ranges) Range(_ context.Context, req *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	resp := &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{}}
	for _, key := range r.keys {
		if bytes.Compare([]byte(key), req.Key) >= 0 && bytes.Compare([]byte(key), req.RangeEnd) < 0 {
			resp.Kvs = append(resp.Kvs, &mvccpb.KeyValue{Key: []byte(key), Value: []byte(`{"state":"normal"}`)})
		}
	}
	return resp, nil
}

// TestChangefeedsBesideKeyspace: TiCDC keeps its changefeeds beside the keyspaces of SQL servers, not in them.
func TestChangefeedsBesideKeyspace(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, &ranges{keys: []string{
		"/keyspaces/tidb/1/tidb/server/info/a", "/tidb/cdc/default/default/changefeed/info/orders", "/tidb/cdc/default/ka/changefeed/info/items",
	}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	for _, namespace := range []string{"", "/keyspaces/tidb/1"} {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{lis.Addr().String()}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		etcd.SetEtcdCliByNamespace(client, namespace)
		names, err := changefeeds(t.Context(), client)
		require.NoError(t, err)
		require.Equal(t, []string{"default/default/orders", "default/ka/items"}, names, namespace)
	}
}
