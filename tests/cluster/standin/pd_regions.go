package standin

import (
	"context"

	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"
)

// GetRegion implements pdpb.PDServer.
func (s *pdService) GetRegion(ctx context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return s.region(s.client.GetRegion(ctx, req.RegionKey))
}

// GetPrevRegion implements pdpb.PDServer.
func (s *pdService) GetPrevRegion(ctx context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return s.region(s.client.GetPrevRegion(ctx, req.RegionKey))
}

// GetRegionByID implements pdpb.PDServer.
func (s *pdService) GetRegionByID(ctx context.Context, req *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	return s.region(s.client.GetRegionByID(ctx, req.RegionId))
}

// region answers with a region; an answer without one says that there is none.
func (s *pdService) region(r *pd.Region, err error) (*pdpb.GetRegionResponse, error) {
	resp := &pdpb.GetRegionResponse{Header: s.failed(err)}
	if r != nil {
		resp.Region, resp.Leader = r.Meta, r.Leader
	}
	return resp, nil
}

// ScanRegions implements pdpb.PDServer.
func (s *pdService) ScanRegions(ctx context.Context, req *pdpb.ScanRegionsRequest) (*pdpb.ScanRegionsResponse, error) {
	list, err := s.client.ScanRegions(ctx, req.StartKey, req.EndKey, int(req.Limit))
	resp := &pdpb.ScanRegionsResponse{Header: s.failed(err), Regions: regions(list)}
	for _, r := range resp.Regions {
		resp.RegionMetas = append(resp.RegionMetas, r.Region)
		resp.Leaders = append(resp.Leaders, r.Leader)
	}
	return resp, nil
}

// BatchScanRegions implements pdpb.PDServer. The regions cover everything, so that
// what was asked for is always contained.
func (s *pdService) BatchScanRegions(ctx context.Context, req *pdpb.BatchScanRegionsRequest) (*pdpb.BatchScanRegionsResponse, error) {
	ranges := make([]pd.KeyRange, len(req.Ranges))
	for i, r := range req.Ranges {
		ranges[i] = pd.KeyRange{StartKey: r.StartKey, EndKey: r.EndKey}
	}
	list, err := s.client.BatchScanRegions(ctx, ranges, int(req.Limit))
	return &pdpb.BatchScanRegionsResponse{Header: s.failed(err), Regions: regions(list)}, nil
}

func regions(list []*pd.Region) []*pdpb.Region {
	out := make([]*pdpb.Region, len(list))
	for i, r := range list {
		out[i] = &pdpb.Region{Region: r.Meta, Leader: r.Leader}
	}
	return out
}

// ScatterRegion implements pdpb.PDServer.
func (s *pdService) ScatterRegion(ctx context.Context, req *pdpb.ScatterRegionRequest) (*pdpb.ScatterRegionResponse, error) {
	if len(req.RegionsId) == 0 {
		return &pdpb.ScatterRegionResponse{Header: s.failed(s.client.ScatterRegion(ctx, req.RegionId))}, nil //nolint:staticcheck // older clients
	}
	return s.client.ScatterRegions(ctx, req.RegionsId)
}

// SplitRegions implements pdpb.PDServer.
func (s *pdService) SplitRegions(ctx context.Context, req *pdpb.SplitRegionsRequest) (*pdpb.SplitRegionsResponse, error) {
	return s.client.SplitRegions(ctx, req.SplitKeys)
}

// SplitAndScatterRegions implements pdpb.PDServer.
func (s *pdService) SplitAndScatterRegions(ctx context.Context, req *pdpb.SplitAndScatterRegionsRequest) (
	*pdpb.SplitAndScatterRegionsResponse, error) {
	return s.client.SplitAndScatterRegions(ctx, req.SplitKeys)
}

// GetOperator implements pdpb.PDServer.
func (s *pdService) GetOperator(ctx context.Context, req *pdpb.GetOperatorRequest) (*pdpb.GetOperatorResponse, error) {
	return s.client.GetOperator(ctx, req.RegionId)
}
