package embedded

import (
	"context"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/config"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// peerClient sends requests to SQL servers, this one included. The first request makes its client.
type peerClient struct {
	mu     sync.Mutex
	client tikv.Client
	closed bool
}

// SendRequest sends a request over the network.
func (p *peerClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	client := p.open()
	if client == nil {
		return nil, context.Canceled
	}
	return client.SendRequest(ctx, addr, req, timeout)
}

// open returns the network client, nil after Close.
func (p *peerClient) open() tikv.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil && !p.closed {
		p.client = tikv.NewRPCClient(tikv.WithSecurity(config.GetGlobalConfig().Security.ClusterSecurity()))
	}
	return p.client
}

// Close ends all connections.
func (p *peerClient) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.client == nil {
		return nil
	}
	client := p.client
	p.client = nil
	return client.Close()
}
