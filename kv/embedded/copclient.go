package embedded

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/store/copr"

	"fastddl/kv/embedded/cop"
)

// anyRows is a number of rows that no page has.
const anyRows = 1 << 40

// copClient sends TiDB's requests to the coprocessor so that the answers are pages.
type copClient struct {
	tidbkv.Client
	answers *answers
}

// IsRequestTypeSupported implements tidbkv.Client.
func (copClient) IsRequestTypeSupported(reqType, subType int64) bool {
	return cop.Supports(reqType, subType)
}

// Send implements tidbkv.Client.
func (c copClient) Send(ctx context.Context, req *tidbkv.Request, vars any, option *tidbkv.ClientSendOption) tidbkv.Response {
	if req.StoreType != tidbkv.TiKV {
		return c.Client.Send(ctx, req, vars, option)
	}
	r := &reading{requests: &requests{stream: stream{answers: c.answers, ordered: req.KeepOrder, desc: req.Desc}}}
	r.resumable = !enablePaging(req) && resumable(req)
	req.StoreBatchSize = 0 // tasks in a batch save round trips that there are none of, and their answers would not be counted
	rest := *req           // the sender may change its own
	inner := context.WithValue(ctx, requestsKey{}, r.requests)
	r.response = c.Client.Send(inner, req, vars, option)
	if _, ok := r.response.(copr.CopInfo); !ok { // an error
		return r.response
	}
	r.forget = context.AfterFunc(ctx, r.requests.end)
	r.resume = func(ranges []tidbkv.KeyRange) tidbkv.Response {
		rest := rest
		rest.KeyRanges = tidbkv.NewNonPartitionedKeyRanges(ranges)
		return c.Client.Send(inner, &rest, vars, option)
	}
	return r
}

// enablePaging lets the answers to a request be pages, in TiDB's way. It says whether that is possible. TiDB itself pages by
// rows, where it expects many.
func enablePaging(req *tidbkv.Request) bool {
	if req.Tp != tidbkv.ReqTypeDAG || !ascending(req.KeyRanges) {
		req.Paging.Enable = false // the rest of a page is found by its key, and would be read twice or not at all
		return false
	}
	if !req.Paging.Enable {
		req.Paging.Enable, req.Paging.MinPagingSize, req.Paging.MaxPagingSize = true, anyRows, anyRows
	}
	req.LimitSize = 0 // TiDB does not page for a small limit
	return true
}

// ascending says that no range begins before the end of the one before it. TiDB finds the rest of a page by its key.
func ascending(ranges *tidbkv.KeyRanges) bool {
	sorted := true
	ranges.ForEachPartition(func(part []tidbkv.KeyRange) {
		for i := 1; i < len(part) && sorted; i++ {
			end := part[i-1].EndKey
			sorted = len(end) > 0 && bytes.Compare(end, part[i].StartKey) <= 0
		}
	})
	return sorted
}

// resumable says that the answers to a request may come in any order, so that the rest of a page may be asked for when
// everything else was taken. ADMIN CHECK TABLE asks for a document once for each of its entries; samples are merged.
func resumable(req *tidbkv.Request) bool {
	return req.Tp == tidbkv.ReqTypeAnalyze || req.Tp == tidbkv.ReqTypeDAG && !req.KeepOrder
}

// requests are those to regions that answer a request of TiDB. Each finds them in its context.
type requests struct {
	stream
	resumable bool // requests may leave a rest

	mu   sync.Mutex // guards rest
	rest []tidbkv.KeyRange
}

// reading is TiDB's response to a request. What it holds is given back when it is read to its end, fails or is closed, and
// when the context of the request ends: TiDB does not close all of its responses.
type reading struct {
	*requests
	resume func(ranges []tidbkv.KeyRange) tidbkv.Response // sends the rest
	forget func() bool                                    // ends the wait for the end of the context

	guard    sync.Mutex // guards what follows
	response tidbkv.Response
	closed   bool
}

type requestsKey struct{}

// requestsOf returns what the request with ctx is part of, nil if it is not from TiDB.
func requestsOf(ctx context.Context) *requests {
	r, _ := ctx.Value(requestsKey{}).(*requests)
	return r
}

// left takes what a page has left to be read.
func (r *requests) left(ranges []*coprocessor.KeyRange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kr := range ranges {
		r.rest = append(r.rest, tidbkv.KeyRange{StartKey: kr.Start, EndKey: kr.End})
	}
}

// current is the response that pages come from.
func (r *reading) current() tidbkv.Response {
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.response
}

// Next implements tidbkv.Response.
func (r *reading) Next(ctx context.Context) (result tidbkv.ResultSubset, err error) {
	defer func() {
		if result == nil { // there is no more, or an error or a panic instead
			r.finish()
		}
	}()
	for {
		result, err = r.next(ctx)
		if result != nil || err != nil {
			return result, err
		}
		if more, err := r.goOn(); err != nil || !more {
			return nil, err
		}
	}
}

// finish gives back what is held.
func (r *reading) finish() {
	r.end()
	r.forget()
}

func (r *reading) next(ctx context.Context) (result tidbkv.ResultSubset, err error) {
	r.take()
	defer func() {
		size := int64(0)
		if result != nil {
			size = int64(len(result.GetData()))
		}
		r.took(size)
	}()
	return r.current().Next(ctx)
}

// goOn sends what was left. It says whether that was anything.
func (r *reading) goOn() (bool, error) {
	r.mu.Lock()
	rest := r.rest
	r.rest = nil
	r.mu.Unlock()
	if len(rest) == 0 {
		return false, nil
	}
	if err := r.current().Close(); err != nil {
		return false, err
	}
	slices.SortStableFunc(rest, func(a, b tidbkv.KeyRange) int { return bytes.Compare(a.StartKey, b.StartKey) })
	next := r.resume(rest)
	r.guard.Lock()
	closed := r.closed
	if !closed {
		r.response = next
	}
	r.guard.Unlock()
	if closed {
		return false, next.Close()
	}
	return true, nil
}

// Close implements tidbkv.Response.
func (r *reading) Close() error {
	r.finish()
	r.guard.Lock()
	r.closed = true
	response := r.response
	r.guard.Unlock()
	return response.Close()
}

// GetConcurrency implements copr.CopInfo.
func (r *reading) GetConcurrency() (int, int) {
	if info, ok := r.current().(copr.CopInfo); ok {
		return info.GetConcurrency()
	}
	return 0, 0
}

// GetStoreBatchInfo implements copr.CopInfo.
func (r *reading) GetStoreBatchInfo() (uint64, uint64) {
	if info, ok := r.current().(copr.CopInfo); ok {
		return info.GetStoreBatchInfo()
	}
	return 0, 0
}

// GetBuildTaskElapsed implements copr.CopInfo.
func (r *reading) GetBuildTaskElapsed() time.Duration {
	if info, ok := r.current().(copr.CopInfo); ok {
		return info.GetBuildTaskElapsed()
	}
	return 0
}

// CollectUnconsumedCopRuntimeStats implements copr.HasUnconsumedCopRuntimeStats.
func (r *reading) CollectUnconsumedCopRuntimeStats() []*copr.CopRuntimeStats {
	if stats, ok := r.current().(copr.HasUnconsumedCopRuntimeStats); ok {
		return stats.CollectUnconsumedCopRuntimeStats()
	}
	return nil
}
