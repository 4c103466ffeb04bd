package tikv

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	tidbkv "github.com/pingcap/tidb/pkg/kv"

	"fastddl/kv"
)

// traffic is what the coprocessor has sent.
type traffic struct {
	mu       sync.Mutex
	requests []*tidbkv.Request
	open     int   // requests that are not closed
	answers  []int // bytes of each
	// asked, if it is not nil, is called before each answer is asked for.
	asked func(ctx context.Context)
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

// Send fails the request if TiKV would take a range of it for a point, as it never does to sum up.
func (c *countingClient) Send(ctx context.Context, req *tidbkv.Request, vars any, option *tidbkv.ClientSendOption) tidbkv.Response {
	for _, r := range req.KeyRanges.FirstPartitionRange() {
		if req.Tp != tidbkv.ReqTypeChecksum && bytes.Equal(r.EndKey, kv.PrefixNext(r.StartKey)) {
			return failedResponse{fmt.Errorf("%x is one key to TiKV", r.StartKey)}
		}
	}
	c.log.mu.Lock()
	c.log.requests = append(c.log.requests, req)
	c.log.open++
	c.log.mu.Unlock()
	return &countingResponse{c.Client.Send(ctx, req, vars, option), c.log}
}

type failedResponse struct{ err error }

func (r failedResponse) Next(context.Context) (tidbkv.ResultSubset, error) { return nil, r.err }
func (r failedResponse) Close() error                                      { return nil }

type countingResponse struct {
	tidbkv.Response
	log *traffic
}

func (r *countingResponse) Close() error {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.open--
	return r.Response.Close()
}

func (r *countingResponse) Next(ctx context.Context) (tidbkv.ResultSubset, error) {
	if r.log.asked != nil {
		r.log.asked(ctx)
	}
	part, err := r.Response.Next(ctx)
	if part != nil {
		r.log.mu.Lock()
		r.log.answers = append(r.log.answers, len(part.GetData()))
		r.log.mu.Unlock()
	}
	return part, err
}
