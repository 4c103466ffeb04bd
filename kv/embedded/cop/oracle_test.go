package cop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// oracleClient stands between TiDB and unistore. It answers the coprocessor requests with Handle over unistore's own data,
// and asks unistore's coprocessor for its opinion on each.
type oracleClient struct {
	tikv.Client

	mu        sync.Mutex
	mode      oracleMode
	requests  int
	executors map[tipb.ExecType]int
	different []string
	capture   bool
	captured  []capturedRequest
}

// oracleMode says what the client does with a coprocessor request.
type oracleMode int

const (
	handle         oracleMode = iota // answers it with Handle
	compareAnswers                   // the same, and compares the answer with unistore's
	forward                          // has unistore answer it
)

type capturedRequest struct {
	addr string
	req  *tikvrpc.Request
}

// SendRequest implements tikv.Client. As with any client who gives up gets that for an answer: TiDB asserts it when it is
// closed beside requests of its own.
func (c *oracleClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	resp, err := c.send(ctx, addr, req, timeout)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return resp, err
}

func (c *oracleClient) send(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	if req.Type != tikvrpc.CmdCop {
		return c.Client.SendRequest(ctx, addr, req, timeout)
	}
	cop := req.Cop()
	c.mu.Lock()
	if c.capture {
		c.captured = append(c.captured, capturedRequest{addr, req})
	}
	mode := c.mode
	c.mu.Unlock()
	if mode == forward {
		return c.Client.SendRequest(ctx, addr, req, timeout)
	}
	if tp := cop.Tp; tp == tidbkv.ReqTypeDAG {
		return c.dag(ctx, addr, req, timeout)
	}
	r := &rpcReader{client: c.Client, addr: addr, req: req, timeout: timeout}
	mine := Handle(ctx, r, cop)
	if mode != compareAnswers || cop.Tp != tidbkv.ReqTypeAnalyze || r.region != nil || mine.Locked != nil {
		return r.answer(mine), nil
	}
	theirs, err := c.Client.SendRequest(ctx, addr, req, timeout)
	if err != nil {
		return nil, err
	}
	if theirCop := theirs.Resp.(*coprocessor.Response); theirCop.RegionError == nil && theirCop.Locked == nil {
		c.note(compareAnalyze(cop, mine, theirCop))
	}
	return r.answer(mine), nil
}

// note counts a compared request and keeps the difference if there is one.
func (c *oracleClient) note(diff string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if diff != "" {
		c.different = append(c.different, diff)
	}
}

func (c *oracleClient) dag(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	cop := req.Cop()
	r := &rpcReader{client: c.Client, addr: addr, req: req, timeout: timeout}
	mine := Handle(ctx, r, cop)
	c.mu.Lock()
	mode := c.mode
	c.mu.Unlock()
	if r.region != nil || mine.Locked != nil {
		return r.answer(mine), nil
	}
	if mode != compareAnswers {
		c.countExecutors(cop)
		return r.answer(mine), nil
	}
	whole := *cop
	whole.PagingSize = 0
	whole.Tasks = nil
	// Unistore's row encoding cuts the digits of decimals off.
	dag := &tipb.DAGRequest{}
	if err := dag.Unmarshal(cop.Data); err != nil {
		return nil, err
	}
	dag.EncodeType = tipb.EncodeType_TypeChunk
	var err error
	if whole.Data, err = dag.Marshal(); err != nil {
		return nil, err
	}
	theirReq := *req
	theirReq.Req = &whole
	theirs, err := c.Client.SendRequest(ctx, addr, &theirReq, timeout)
	if err != nil {
		return nil, err
	}
	theirCop := theirs.Resp.(*coprocessor.Response)
	if theirCop.RegionError == nil && theirCop.Locked == nil && ctx.Err() == nil {
		c.check(ctx, r, cop, mine, theirCop)
	}
	return r.answer(mine), nil
}

// check compares two answers to a request; mine may be a first page.
func (c *oracleClient) check(ctx context.Context, r *rpcReader, req *coprocessor.Request, mine, theirs *coprocessor.Response) {
	dag := &tipb.DAGRequest{}
	if err := dag.Unmarshal(req.Data); err != nil {
		panic(err)
	}
	c.note(compareDAG(ctx, r, req, dag, mine, theirs))
	c.countExecutors(req)
}

func (c *oracleClient) countExecutors(req *coprocessor.Request) {
	dag := &tipb.DAGRequest{}
	if err := dag.Unmarshal(req.Data); err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range dag.Executors {
		c.executors[e.Tp]++
	}
}

// counts returns how many requests were compared and which executors they had. Requests of a statement that has
// ended may still be under way.
func (c *oracleClient) counts() (requests int, executors map[tipb.ExecType]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, maps.Clone(c.executors)
}

// take returns the differences since the last call.
func (c *oracleClient) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.different
	c.different = nil
	return d
}

func (c *oracleClient) setMode(m oracleMode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode = m
}

// rpcReader reads the snapshot of a coprocessor request through unistore's plain reads.
type rpcReader struct {
	client  tikv.Client
	addr    string
	req     *tikvrpc.Request
	timeout time.Duration
	region  *errorpb.Error
}

var errRegion = errors.New("region error")

// answer returns the response for the client: the region error if there was one.
func (r *rpcReader) answer(resp *coprocessor.Response) *tikvrpc.Response {
	if r.region != nil {
		resp = &coprocessor.Response{RegionError: r.region}
	}
	return &tikvrpc.Response{Resp: resp}
}

func (r *rpcReader) send(ctx context.Context, tp tikvrpc.CmdType, body any) (*tikvrpc.Response, error) {
	req := tikvrpc.NewRequest(tp, body, r.req.Context)
	return r.client.SendRequest(ctx, r.addr, req, r.timeout)
}

// Get implements Reader.
func (r *rpcReader) Get(ctx context.Context, key []byte) ([]byte, error) {
	pbCtx := r.req.Context
	resp, err := r.send(ctx, tikvrpc.CmdGet, &kvrpcpb.GetRequest{Context: &pbCtx, Key: key, Version: r.req.Cop().StartTs})
	if err != nil {
		return nil, err
	}
	get := resp.Resp.(*kvrpcpb.GetResponse)
	if get.RegionError != nil {
		r.region = get.RegionError
		return nil, errRegion
	}
	if get.Error.GetLocked() != nil {
		return nil, &LockedError{Info: get.Error.Locked}
	}
	if get.NotFound || len(get.Value) == 0 { // unistore says so only by the latter
		return nil, nil
	}
	return get.Value, nil
}

// Scan implements Reader.
func (r *rpcReader) Scan(ctx context.Context, start, end []byte, desc bool, fn func(key, value []byte) (bool, error)) error {
	const batch = 4096
	pbCtx := r.req.Context
	for {
		req := &kvrpcpb.ScanRequest{Context: &pbCtx, Version: r.req.Cop().StartTs, Limit: batch, StartKey: start, EndKey: end}
		if desc {
			req.Reverse, req.StartKey, req.EndKey = true, end, start
		}
		resp, err := r.send(ctx, tikvrpc.CmdScan, req)
		if err != nil {
			return err
		}
		scan := resp.Resp.(*kvrpcpb.ScanResponse)
		if scan.RegionError != nil {
			r.region = scan.RegionError
			return errRegion
		}
		for _, p := range scan.Pairs {
			if p.Error.GetLocked() != nil {
				return &LockedError{Info: p.Error.Locked}
			}
			more, err := fn(p.Key, p.Value)
			if err != nil || !more {
				return err
			}
		}
		if len(scan.Pairs) < batch {
			return nil
		}
		last := scan.Pairs[len(scan.Pairs)-1].Key
		if desc {
			end = slices.Clone(last)
		} else {
			start = successor(last)
		}
	}
}
