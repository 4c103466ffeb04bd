package member

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
)

// Client is what is needed of etcd's client.
type Client interface {
	clientv3.KV
	clientv3.Lease
	clientv3.Watcher
}

// NewClient returns what is needed of etcd's client, which stays open.
func NewClient(c *clientv3.Client) Client { return newClient(c, clientv3.RetryLeaseClient(c)) }

func newClient(c *clientv3.Client, leases etcdserverpb.LeaseClient) Client {
	paced := &pacedLeases{leases, rate.NewLimiter(rate.Every(retryInterval), 1)}
	return &client{KV: c, Watcher: c, Lease: clientv3.NewLeaseFromLeaseClient(paced, c, 0)}
}

type client struct {
	clientv3.KV
	clientv3.Lease
	clientv3.Watcher
}

// Close does nothing.
func (*client) Close() error { return nil }

// pacedLeases pauses between attempts to renew a lease. Etcd's client makes them without a pause if the server is said to
// be unavailable in words that it does not know, as by a proxy before it.
type pacedLeases struct {
	etcdserverpb.LeaseClient
	pace *rate.Limiter
}

// LeaseKeepAlive implements etcdserverpb.LeaseClient.
func (l *pacedLeases) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (etcdserverpb.Lease_LeaseKeepAliveClient, error) {
	if err := l.pace.Wait(ctx); err != nil {
		return nil, err
	}
	return l.LeaseClient.LeaseKeepAlive(ctx, opts...)
}
