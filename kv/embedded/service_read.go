package embedded

import (
	"bytes"
	"context"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"

	"fastddl/kv"
	"fastddl/kv/embedded/cop"
)

// KvGet implements tikvpb.TikvServer.
func (s *service) KvGet(ctx context.Context, req *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	resp := &kvrpcpb.GetResponse{}
	if resp.RegionError = s.route(req.Context, req.Key); resp.RegionError != nil {
		return resp, nil
	}
	if resp.Error = checkKey(req.Key); resp.Error != nil {
		return resp, nil
	}
	value, err := s.engine.Snapshot(req.Version, req.Context).Get(ctx, req.Key)
	if err != nil {
		resp.Error, err = failure(err)
		return resp, err
	}
	resp.Value, resp.NotFound = value, value == nil
	return resp, nil
}

// KvBatchGet implements tikvpb.TikvServer.
func (s *service) KvBatchGet(ctx context.Context, req *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	resp := &kvrpcpb.BatchGetResponse{}
	if resp.RegionError = s.route(req.Context, req.Keys...); resp.RegionError != nil {
		return resp, nil
	}
	for _, key := range req.Keys {
		if resp.Error = checkKey(key); resp.Error != nil {
			return resp, nil
		}
	}
	resp.Pairs = make([]*kvrpcpb.KvPair, 0, len(req.Keys))
	err := s.engine.Snapshot(req.Version, req.Context).BatchGet(ctx, req.Keys, func(key, value []byte) {
		resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Key: key, Value: value})
	})
	if err != nil {
		resp.Pairs = nil
		resp.Error, err = failure(err)
	}
	return resp, err
}

// KvScan implements tikvpb.TikvServer. A scan ends at its region's boundary.
func (s *service) KvScan(ctx context.Context, req *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	resp := &kvrpcpb.ScanResponse{}
	region, regionErr := s.regions.Check(req.Context)
	if resp.RegionError = regionErr; regionErr != nil {
		return resp, nil
	}
	start, end := req.StartKey, req.EndKey
	if req.Reverse {
		start, end = end, start
	}
	if region != nil {
		if bytes.Compare(start, region.Keys.Start) < 0 {
			start = region.Keys.Start
		}
		if region.Keys.End != nil && (len(end) == 0 || bytes.Compare(region.Keys.End, end) < 0) {
			end = region.Keys.End
		}
	}
	snapshot := s.engine.Snapshot(req.Version, req.Context)
	skip := 0
	err := snapshot.Scan(ctx, start, end, req.Reverse, func(key, value []byte) (bool, error) {
		if skip > 0 {
			skip--
			return true, nil
		}
		skip = int(max(req.SampleStep, 1)) - 1
		if len(resp.Pairs) >= int(req.Limit) {
			return false, nil
		}
		pair := &kvrpcpb.KvPair{Key: bytes.Clone(key)}
		if !req.KeyOnly {
			pair.Value = bytes.Clone(value)
		}
		resp.Pairs = append(resp.Pairs, pair)
		return len(resp.Pairs) < int(req.Limit), nil
	})
	if err != nil {
		resp.Pairs = nil
		resp.Error, err = failure(err)
	}
	return resp, err
}

// Coprocessor implements tikvpb.TikvServer. It also answers the tasks for other regions in the request.
func (s *service) Coprocessor(ctx context.Context, req *coprocessor.Request) (*coprocessor.Response, error) {
	resp, err := s.page(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(req.Tasks) > 0 && resp.RegionError == nil {
		resp.BatchResponses = cop.HandleBatch(ctx, req, s.taskReader(req))
	}
	return resp, ctx.Err()
}

// page waits until there is room for the request's answer, and answers it.
func (s *service) page(ctx context.Context, req *coprocessor.Request) (*coprocessor.Response, error) {
	limit := cop.Page{Bytes: uint64(s.answers.page)}
	r := requestsOf(ctx)
	if r == nil {
		return s.coprocessor(ctx, req, limit), nil
	}
	if r.resumable {
		limit.Rest = r.left
	}
	var at []byte
	if len(req.Ranges) > 0 {
		at = req.Ranges[0].Start
	}
	p, err := r.begin(ctx, at)
	if err != nil {
		return nil, err
	}
	size := 0
	defer func() { p.end(int64(size)) }() // also if it panics
	resp := s.coprocessor(ctx, req, limit)
	if err := ctx.Err(); err != nil {
		return nil, err // the SQL layer would drop the answer, and never take it
	}
	size = len(resp.Data)
	return resp, nil
}

func (s *service) coprocessor(ctx context.Context, req *coprocessor.Request, page cop.Page) *coprocessor.Response {
	region, regionErr := s.regions.Check(req.Context)
	for i := 0; i < len(req.Ranges) && regionErr == nil; i++ {
		regionErr = region.Contains(req.Ranges[i].Start)
	}
	if regionErr != nil {
		return &coprocessor.Response{RegionError: regionErr}
	}
	if req.Tp == tidbkv.ReqTypeAnalyze {
		var end func()
		ctx, end = s.analyzing(ctx)
		defer end()
	}
	resp := cop.HandlePage(ctx, s.engine.Snapshot(req.StartTs, req.Context), req, page)
	// TiDB's own requests set IsCacheEnabled too, but not NotFillCache. They need no check: TiDB caches no response without
	// a data version, and these have none.
	if req.Tp == tidbkv.ReqTypeDAG && req.IsCacheEnabled && req.Context.GetNotFillCache() {
		resp.CanBeCached = s.unchanged(ctx, req)
	}
	return resp
}

// unchanged reports whether the ranges of a request have no newer versions and no locks.
func (s *service) unchanged(ctx context.Context, req *coprocessor.Request) bool {
	for _, r := range req.Ranges {
		if changed, err := s.engine.ChangedSince(ctx, kv.KeyRange{Start: r.Start, End: r.End}, req.StartTs); err != nil || changed {
			return false
		}
	}
	return true
}

// taskReader returns a function that checks the region of a task and returns a reader for it.
func (s *service) taskReader(req *coprocessor.Request) func(*coprocessor.StoreBatchTask) (cop.Reader, *errorpb.Error) {
	return func(task *coprocessor.StoreBatchTask) (cop.Reader, *errorpb.Error) {
		rc := &kvrpcpb.Context{RegionId: task.RegionId, RegionEpoch: task.RegionEpoch, Peer: task.Peer}
		if _, regionErr := s.regions.Check(rc); regionErr != nil {
			return nil, regionErr
		}
		return s.engine.Snapshot(req.StartTs, req.Context), nil
	}
}

// KvScanLock implements tikvpb.TikvServer. It lists locks of its region only.
func (s *service) KvScanLock(ctx context.Context, req *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	region, regionErr := s.regions.Check(req.Context)
	if regionErr != nil {
		return &kvrpcpb.ScanLockResponse{RegionError: regionErr}, nil
	}
	if region != nil {
		confined := *req
		if bytes.Compare(confined.StartKey, region.Keys.Start) < 0 {
			confined.StartKey = region.Keys.Start
		}
		if region.Keys.End != nil && (len(confined.EndKey) == 0 || bytes.Compare(region.Keys.End, confined.EndKey) < 0) {
			confined.EndKey = region.Keys.End
		}
		req = &confined
	}
	resp, err := s.engine.ScanLock(ctx, req)
	if err != nil {
		resp = &kvrpcpb.ScanLockResponse{}
		resp.Error, err = failure(err)
	}
	return resp, err
}

// MvccGetByKey implements tikvpb.TikvServer.
func (s *service) MvccGetByKey(ctx context.Context, req *kvrpcpb.MvccGetByKeyRequest) (*kvrpcpb.MvccGetByKeyResponse, error) {
	resp := &kvrpcpb.MvccGetByKeyResponse{}
	if resp.RegionError = s.route(req.Context, req.Key); resp.RegionError != nil {
		return resp, nil
	}
	info, err := s.engine.MvccByKey(ctx, req.Key)
	if err != nil {
		resp.Error = err.Error()
	}
	resp.Info = info
	return resp, nil
}

// MvccGetByStartTs implements tikvpb.TikvServer. Transactions that have ended are not found.
func (s *service) MvccGetByStartTs(ctx context.Context, req *kvrpcpb.MvccGetByStartTsRequest) (*kvrpcpb.MvccGetByStartTsResponse, error) {
	resp := &kvrpcpb.MvccGetByStartTsResponse{}
	if resp.RegionError = s.route(req.Context); resp.RegionError != nil {
		return resp, nil
	}
	var err error
	if resp.Key, resp.Info, err = s.engine.MvccByStartTS(ctx, req.StartTs); err != nil {
		resp.Error = err.Error()
	}
	return resp, nil
}
