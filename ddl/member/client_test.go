package member

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// deadProxy answers at once that the server is not there, at most a thousand times.
type deadProxy struct {
	etcdserverpb.LeaseClient
	etcdserverpb.Lease_LeaseKeepAliveClient
	asked int
}

func (p *deadProxy) LeaseKeepAlive(context.Context, ...grpc.CallOption) (etcdserverpb.Lease_LeaseKeepAliveClient, error) {
	if p.asked++; p.asked > 1000 {
		return nil, errors.New("asked too often")
	}
	return p, nil
}

func (*deadProxy) Send(*etcdserverpb.LeaseKeepAliveRequest) error { return nil }
func (*deadProxy) CloseSend() error                               { return nil }

func (*deadProxy) Recv() (*etcdserverpb.LeaseKeepAliveResponse, error) {
	return nil, status.Error(codes.Unavailable, "unexpected HTTP status code received from server: 503")
}

// TestRenewalsAreNoBusyLoop: what is refused at once is tried again after a pause, until its time is over.
func TestRenewalsAreNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &deadProxy{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*retryInterval)
		defer cancel()
		began := time.Now()
		_, err := newClient(&clientv3.Client{}, p).KeepAliveOnce(ctx, 1)
		require.Error(t, err)
		require.LessOrEqual(t, p.asked, 11)
		require.Greater(t, p.asked, 5, "it does not give up at once")
		require.LessOrEqual(t, time.Since(began), 10*retryInterval)
	})
}
