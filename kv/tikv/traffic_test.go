package tikv

import (
	"context"
	"sync"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
)

// traffic is what the coprocessor has sent.
type traffic struct {
	mu       sync.Mutex
	requests []*tidbkv.Request
	answers  []int // bytes of each
}

// take returns the number of answers and of their bytes since the last call.
func (l *traffic) take() (answers, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.answers {
		bytes += n
	}
	answers = len(l.answers)
	l.answers, l.requests = nil, nil
	return answers, bytes
}

type countingClient struct {
	tidbkv.Client
	log *traffic
}

func (c *countingClient) Send(ctx context.Context, req *tidbkv.Request, vars any, option *tidbkv.ClientSendOption) tidbkv.Response {
	c.log.mu.Lock()
	c.log.requests = append(c.log.requests, req)
	c.log.mu.Unlock()
	return &countingResponse{c.Client.Send(ctx, req, vars, option), c.log}
}

type countingResponse struct {
	tidbkv.Response
	log *traffic
}

func (r *countingResponse) Next(ctx context.Context) (tidbkv.ResultSubset, error) {
	part, err := r.Response.Next(ctx)
	if part != nil {
		r.log.mu.Lock()
		r.log.answers = append(r.log.answers, len(part.GetData()))
		r.log.mu.Unlock()
	}
	return part, err
}
