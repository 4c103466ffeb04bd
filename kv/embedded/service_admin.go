package embedded

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/kv"
	"fastddl/kv/embedded/placement"
)

// healthySlowScore is TiKV's score of a store that is not slow.
const healthySlowScore = 1

// SplitRegion implements tikvpb.TikvServer.
func (s *service) SplitRegion(_ context.Context, req *kvrpcpb.SplitRegionRequest) (*kvrpcpb.SplitRegionResponse, error) {
	keys := req.SplitKeys
	if len(keys) == 0 && len(req.SplitKey) > 0 {
		keys = [][]byte{req.SplitKey}
	}
	for {
		before, regionErr := s.regions.Check(req.Context)
		for i := 0; i < len(keys) && regionErr == nil; i++ {
			regionErr = before.Contains(keys[i])
		}
		if regionErr != nil {
			return &kvrpcpb.SplitRegionResponse{RegionError: regionErr}, nil
		}
		var pieces []*placement.Region
		if before == nil {
			pieces = s.regions.Split(keys...)
		} else if pieces = s.regions.SplitRegion(before, keys...); pieces == nil {
			continue // it has changed since it was checked, which the next check says
		}
		resp := &kvrpcpb.SplitRegionResponse{}
		for _, r := range pieces {
			resp.Regions = append(resp.Regions, r.Meta())
		}
		return resp, nil
	}
}

// KvGC implements tikvpb.TikvServer.
func (s *service) KvGC(ctx context.Context, req *kvrpcpb.GCRequest) (*kvrpcpb.GCResponse, error) {
	resp := &kvrpcpb.GCResponse{}
	_, err := s.pd.UpdateGCSafePoint(ctx, req.SafePoint)
	resp.Error, err = failure(err)
	return resp, err
}

// KvDeleteRange implements tikvpb.TikvServer.
func (s *service) KvDeleteRange(ctx context.Context, req *kvrpcpb.DeleteRangeRequest) (*kvrpcpb.DeleteRangeResponse, error) {
	resp := &kvrpcpb.DeleteRangeResponse{}
	if resp.RegionError = s.route(req.Context); resp.RegionError != nil || req.NotifyOnly {
		return resp, nil
	}
	if err := s.destroy(ctx, req.StartKey, req.EndKey); err != nil {
		resp.Error = err.Error()
	}
	return resp, nil
}

// UnsafeDestroyRange implements tikvpb.TikvServer.
func (s *service) UnsafeDestroyRange(ctx context.Context, req *kvrpcpb.UnsafeDestroyRangeRequest) (*kvrpcpb.UnsafeDestroyRangeResponse, error) {
	resp := &kvrpcpb.UnsafeDestroyRangeResponse{}
	if err := s.destroy(ctx, req.StartKey, req.EndKey); err != nil {
		resp.Error = err.Error()
	}
	return resp, nil
}

// destroy removes all versions of a range, in pieces, so that their files are removed one after the other.
func (s *service) destroy(ctx context.Context, start, end []byte) error {
	r := kv.KeyRange{Start: start}
	if len(end) > 0 {
		r.End = end
	}
	pieces, err := s.store.Ranges(ctx, r)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if err := s.store.DeleteRange(ctx, p.KeyRange); err != nil {
			return err
		}
	}
	return nil
}

// GetStoreSafeTS implements tikvpb.TikvServer. All timestamps that were handed out can be read.
func (s *service) GetStoreSafeTS(context.Context, *kvrpcpb.StoreSafeTSRequest) (*kvrpcpb.StoreSafeTSResponse, error) {
	return &kvrpcpb.StoreSafeTSResponse{SafeTs: s.store.LastTS()}, nil
}

// GetHealthFeedback implements tikvpb.TikvServer.
func (s *service) GetHealthFeedback(context.Context, *kvrpcpb.GetHealthFeedbackRequest) (*kvrpcpb.GetHealthFeedbackResponse, error) {
	return &kvrpcpb.GetHealthFeedbackResponse{
		HealthFeedback: &kvrpcpb.HealthFeedback{StoreId: placement.StoreID, SlowScore: healthySlowScore},
	}, nil
}

// KvPrepareFlashbackToVersion implements tikvpb.TikvServer: flashback of a cluster is not supported.
func (s *service) KvPrepareFlashbackToVersion(context.Context, *kvrpcpb.PrepareFlashbackToVersionRequest) (*kvrpcpb.PrepareFlashbackToVersionResponse, error) {
	return &kvrpcpb.PrepareFlashbackToVersionResponse{Error: flashbackUnsupported}, nil
}

// KvFlashbackToVersion implements tikvpb.TikvServer: flashback of a cluster is not supported.
func (s *service) KvFlashbackToVersion(context.Context, *kvrpcpb.FlashbackToVersionRequest) (*kvrpcpb.FlashbackToVersionResponse, error) {
	return &kvrpcpb.FlashbackToVersionResponse{Error: flashbackUnsupported}, nil
}

const flashbackUnsupported = "FLASHBACK CLUSTER is not supported by the embedded store"
