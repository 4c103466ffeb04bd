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
	r := &reading{stream: stream{answers: c.answers, ordered: req.KeepOrder, desc: req.Desc}}
	r.resumable = !enablePaging(req) && resumable(req)
	ctx = context.WithValue(ctx, readingKey{}, r)
	r.response = c.Client.Send(ctx, req, vars, option)
	if _, ok := r.response.(copr.CopInfo); !ok { // an error
		return r.response
	}
	r.resume = func(ranges []tidbkv.KeyRange) tidbkv.Response {
		rest := *req
		rest.KeyRanges = tidbkv.NewNonPartitionedKeyRanges(ranges)
		return c.Client.Send(ctx, &rest, vars, option)
	}
	return r
}

// enablePaging lets the answers to a request be pages, in TiDB's way. It says whether that is possible. TiDB itself pages by
// rows, where it expects many.
func enablePaging(req *tidbkv.Request) bool {
	if req.Tp != tidbkv.ReqTypeDAG || !ascending(req.KeyRanges) {
		return false
	}
	if !req.Paging.Enable {
		req.Paging.Enable, req.Paging.MinPagingSize, req.Paging.MaxPagingSize = true, anyRows, anyRows
	}
	req.LimitSize = 0      // TiDB does not page for a small limit,
	req.StoreBatchSize = 0 // nor tasks in a batch, which saves round trips that there are none of
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

// reading is TiDB's response to a request. The requests to regions that it makes find it in their context.
type reading struct {
	stream
	// resumable says that requests may leave a rest, which is sent by resume.
	resumable bool
	resume    func(ranges []tidbkv.KeyRange) tidbkv.Response

	mu       sync.Mutex // guards what follows
	response tidbkv.Response
	rest     []tidbkv.KeyRange
	closed   bool
}

type readingKey struct{}

// readingOf returns what the request with ctx is part of, nil if it is not from TiDB.
func readingOf(ctx context.Context) *reading {
	r, _ := ctx.Value(readingKey{}).(*reading)
	return r
}

// left takes what a page has left to be read.
func (r *reading) left(ranges []*coprocessor.KeyRange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kr := range ranges {
		r.rest = append(r.rest, tidbkv.KeyRange{StartKey: kr.Start, EndKey: kr.End})
	}
}

// current is the response that pages come from.
func (r *reading) current() tidbkv.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.response
}

// Next implements tidbkv.Response.
func (r *reading) Next(ctx context.Context) (tidbkv.ResultSubset, error) {
	for {
		result, err := r.next(ctx)
		if result != nil || err != nil {
			return result, err
		}
		more, err := r.goOn()
		if err != nil {
			return nil, err
		}
		if !more {
			r.end()
			return nil, nil
		}
	}
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
	before, rest := r.response, r.rest
	r.rest = nil
	r.mu.Unlock()
	if len(rest) == 0 {
		return false, nil
	}
	if err := before.Close(); err != nil {
		return false, err
	}
	slices.SortStableFunc(rest, func(a, b tidbkv.KeyRange) int { return bytes.Compare(a.StartKey, b.StartKey) })
	next := r.resume(rest)
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.response = next
	}
	r.mu.Unlock()
	if closed {
		return false, next.Close()
	}
	return true, nil
}

// Close implements tidbkv.Response.
func (r *reading) Close() error {
	r.end()
	r.mu.Lock()
	r.closed = true
	response := r.response
	r.mu.Unlock()
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
