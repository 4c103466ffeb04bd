package standin

import (
	"context"

	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"
)

// UpdateGCSafePoint implements pdpb.PDServer.
func (s *pdService) UpdateGCSafePoint(ctx context.Context, req *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	ts, err := s.client.UpdateGCSafePoint(ctx, req.SafePoint)
	return &pdpb.UpdateGCSafePointResponse{Header: s.failed(err), NewSafePoint: ts}, nil
}

// UpdateServiceGCSafePoint implements pdpb.PDServer.
func (s *pdService) UpdateServiceGCSafePoint(ctx context.Context, req *pdpb.UpdateServiceGCSafePointRequest) (
	*pdpb.UpdateServiceGCSafePointResponse, error) {
	lowest, err := s.client.UpdateServiceGCSafePoint(ctx, string(req.ServiceId), req.TTL, req.SafePoint)
	return &pdpb.UpdateServiceGCSafePointResponse{Header: s.failed(err), ServiceId: req.ServiceId, TTL: req.TTL, MinSafePoint: lowest}, nil
}

// LoadGlobalConfig implements pdpb.PDServer.
func (s *pdService) LoadGlobalConfig(ctx context.Context, req *pdpb.LoadGlobalConfigRequest) (*pdpb.LoadGlobalConfigResponse, error) {
	items, revision, err := s.client.LoadGlobalConfig(ctx, req.Names, req.ConfigPath)
	if err != nil {
		return nil, err
	}
	return &pdpb.LoadGlobalConfigResponse{Items: configItems(items), Revision: revision}, nil
}

// StoreGlobalConfig implements pdpb.PDServer.
func (s *pdService) StoreGlobalConfig(ctx context.Context, req *pdpb.StoreGlobalConfigRequest) (*pdpb.StoreGlobalConfigResponse, error) {
	items := make([]pd.GlobalConfigItem, len(req.Changes))
	for i, c := range req.Changes {
		items[i] = pd.GlobalConfigItem{EventType: c.Kind, Name: c.Name, Value: c.Value, PayLoad: c.Payload}
	}
	return &pdpb.StoreGlobalConfigResponse{}, s.client.StoreGlobalConfig(ctx, req.ConfigPath, items)
}

// WatchGlobalConfig implements pdpb.PDServer.
func (s *pdService) WatchGlobalConfig(req *pdpb.WatchGlobalConfigRequest, stream pdpb.PD_WatchGlobalConfigServer) error {
	changes, err := s.client.WatchGlobalConfig(stream.Context(), req.ConfigPath, req.Revision)
	if err != nil {
		return err
	}
	for items := range changes {
		if err := stream.Send(&pdpb.WatchGlobalConfigResponse{Header: s.header(), Changes: configItems(items)}); err != nil {
			return err
		}
	}
	return stream.Context().Err()
}

func configItems(items []pd.GlobalConfigItem) []*pdpb.GlobalConfigItem {
	out := make([]*pdpb.GlobalConfigItem, len(items))
	for i, item := range items {
		out[i] = &pdpb.GlobalConfigItem{Kind: item.EventType, Name: item.Name, Payload: item.PayLoad}
	}
	return out
}
