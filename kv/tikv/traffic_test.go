package tikv

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/kv"
)

// traffic is what the coprocessor has sent.
type traffic struct {
	mu       sync.Mutex
	requests []*tikvrpc.Request // that the driver itself has sent
	open     int                // requests that have not ended
	answers  []int              // bytes of each
	// asked, if it is not nil, is called before each request of the driver's own.
	asked func(ctx context.Context, req *coprocessor.Request)
	// change, if it is not nil, changes answers to the driver's own requests.
	change func(asked *coprocessor.Request, answer *coprocessor.Response)
	// version, if it is not nil, is the version of a region's data, which the embedded store does not have.
	version func(region uint64) uint64
}

// SendReq is the way of the driver's own requests. It fails a request to the coprocessor if TiKV would take a range of it
// for a point.
func (s *storage) SendReq(bo *tikv.Backoffer, req *tikvrpc.Request, region tikv.RegionVerID, timeout time.Duration) (*tikvrpc.Response, error) {
	asked, ok := req.Req.(*coprocessor.Request)
	if !ok {
		return s.cluster.SendReq(bo, req, region, timeout)
	}
	for _, r := range asked.Ranges {
		if bytes.Equal(r.End, kv.PrefixNext(r.Start)) {
			return nil, fmt.Errorf("%x is one key to TiKV", r.Start)
		}
	}
	s.log.began()
	defer s.log.ended()
	if s.log.asked != nil {
		s.log.asked(bo.GetCtx(), asked)
	}
	resp, err := s.cluster.SendReq(bo, req, region, timeout)
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.requests = append(s.log.requests, req)
	if err != nil {
		return nil, err
	}
	answer := resp.Resp.(*coprocessor.Response)
	if s.log.version != nil && asked.IsCacheEnabled && answer.RegionError == nil {
		now := s.log.version(region.GetID())
		if asked.CacheIfMatchVersion == now { // as CachedRequestHandler in src/coprocessor/cache.rs
			*answer = coprocessor.Response{IsCacheHit: true}
		}
		answer.CacheLastVersion = now
	}
	s.log.answers = append(s.log.answers, len(answer.Data))
	if s.log.change != nil {
		s.log.change(asked, answer)
	}
	return resp, nil
}

func (l *traffic) began() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
}

func (l *traffic) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
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
	c.log.began()
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
	r.log.ended()
	return r.Response.Close()
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
