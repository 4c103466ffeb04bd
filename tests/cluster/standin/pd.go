package standin

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"
)

// pdService is PD's service: each request is one of the placement client.
type pdService struct {
	pdpb.UnimplementedPDServer
	client pd.Client
	self   *pdpb.Member
	store  string // address of TiKV
	tso    *timestamps
}

func (s *pdService) header() *pdpb.ResponseHeader {
	return &pdpb.ResponseHeader{ClusterId: s.client.GetClusterID(context.Background())}
}

// failed is the header that says what went wrong.
func (s *pdService) failed(err error) *pdpb.ResponseHeader {
	h := s.header()
	if err != nil {
		h.Error = &pdpb.Error{Type: pdpb.ErrorType_UNKNOWN, Message: err.Error()}
	}
	return h
}

// GetClusterInfo implements pdpb.PDServer: timestamps come from PD itself.
func (s *pdService) GetClusterInfo(context.Context, *pdpb.GetClusterInfoRequest) (*pdpb.GetClusterInfoResponse, error) {
	return &pdpb.GetClusterInfoResponse{Header: s.header(), ServiceModes: []pdpb.ServiceMode{pdpb.ServiceMode_PD_SVC_MODE}}, nil
}

// GetMembers implements pdpb.PDServer.
func (s *pdService) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	return &pdpb.GetMembersResponse{Header: s.header(), Members: []*pdpb.Member{s.self}, Leader: s.self, EtcdLeader: s.self}, nil
}

// IsBootstrapped implements pdpb.PDServer.
func (s *pdService) IsBootstrapped(context.Context, *pdpb.IsBootstrappedRequest) (*pdpb.IsBootstrappedResponse, error) {
	return &pdpb.IsBootstrappedResponse{Header: s.header(), Bootstrapped: true}, nil
}

// timestamps hands out timestamps in batches, as PD does, to all endpoints.
type timestamps struct {
	client pd.Client
	mu     sync.Mutex
}

// next returns the last of count timestamps that follow each other, and that no other
// client has: the client counts back from it.
func (t *timestamps) next(ctx context.Context, count int64) (*pdpb.Timestamp, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := &pdpb.Timestamp{}
	for run := int64(0); run < max(count, 1); {
		physical, logical, err := t.client.GetTS(ctx)
		if err != nil {
			return nil, err
		}
		// The store takes timestamps too: one of its own in between begins another run.
		if physical == last.Physical && logical == last.Logical+1 {
			run++
		} else {
			run = 1
		}
		last.Physical, last.Logical = physical, logical
	}
	return last, nil
}

// Tso implements pdpb.PDServer.
func (s *pdService) Tso(stream pdpb.PD_TsoServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		ts, err := s.tso.next(stream.Context(), int64(req.Count))
		if err != nil {
			return err
		}
		if err := stream.Send(&pdpb.TsoResponse{Header: s.header(), Count: req.Count, Timestamp: ts}); err != nil {
			return err
		}
	}
}

// GetMinTS implements pdpb.PDServer.
func (s *pdService) GetMinTS(ctx context.Context, _ *pdpb.GetMinTSRequest) (*pdpb.GetMinTSResponse, error) {
	ts, err := s.tso.next(ctx, 1)
	return &pdpb.GetMinTSResponse{Header: s.failed(err), Timestamp: ts}, nil
}

// served is the store with the address that it is served at.
func (s *pdService) served(store *metapb.Store) *metapb.Store {
	if store != nil {
		store.Address, store.PeerAddress, store.StatusAddress = s.store, s.store, s.store
	}
	return store
}

// GetStore implements pdpb.PDServer.
func (s *pdService) GetStore(ctx context.Context, req *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	store, err := s.client.GetStore(ctx, req.StoreId)
	return &pdpb.GetStoreResponse{Header: s.failed(err), Store: s.served(store)}, nil
}

// GetAllStores implements pdpb.PDServer.
func (s *pdService) GetAllStores(ctx context.Context, _ *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	stores, err := s.client.GetAllStores(ctx)
	for _, store := range stores {
		s.served(store)
	}
	return &pdpb.GetAllStoresResponse{Header: s.failed(err), Stores: stores}, nil
}

// GetClusterConfig implements pdpb.PDServer.
func (s *pdService) GetClusterConfig(ctx context.Context, _ *pdpb.GetClusterConfigRequest) (*pdpb.GetClusterConfigResponse, error) {
	return &pdpb.GetClusterConfigResponse{Header: s.header(), Cluster: &metapb.Cluster{Id: s.client.GetClusterID(ctx), MaxPeerCount: 1}}, nil
}

// SetExternalTimestamp implements pdpb.PDServer.
func (s *pdService) SetExternalTimestamp(ctx context.Context, req *pdpb.SetExternalTimestampRequest) (*pdpb.SetExternalTimestampResponse, error) {
	return &pdpb.SetExternalTimestampResponse{Header: s.failed(s.client.SetExternalTimestamp(ctx, req.Timestamp))}, nil
}

// GetExternalTimestamp implements pdpb.PDServer.
func (s *pdService) GetExternalTimestamp(ctx context.Context, _ *pdpb.GetExternalTimestampRequest) (*pdpb.GetExternalTimestampResponse, error) {
	ts, err := s.client.GetExternalTimestamp(ctx)
	return &pdpb.GetExternalTimestampResponse{Header: s.failed(err), Timestamp: ts}, nil
}
