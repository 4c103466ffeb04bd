package standin

import (
	"context"
	"errors"
	"io"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	rmpb "github.com/pingcap/kvproto/pkg/resource_manager"
	pd "github.com/tikv/pd/client"
)

// keyspaces is PD's service for keyspaces: there is the default one, and what the options name.
type keyspaces struct {
	keyspacepb.UnimplementedKeyspaceServer
	client pd.Client
	more   []*keyspacepb.KeyspaceMeta
}

// LoadKeyspace implements keyspacepb.KeyspaceServer.
func (s *keyspaces) LoadKeyspace(ctx context.Context, req *keyspacepb.LoadKeyspaceRequest) (*keyspacepb.LoadKeyspaceResponse, error) {
	header := &pdpb.ResponseHeader{ClusterId: s.client.GetClusterID(ctx)}
	for _, meta := range s.more {
		if meta.Name == req.Name {
			return &keyspacepb.LoadKeyspaceResponse{Header: header, Keyspace: meta}, nil
		}
	}
	meta, err := s.client.LoadKeyspace(ctx, req.Name)
	if err != nil {
		header.Error = &pdpb.Error{Type: pdpb.ErrorType_ENTRY_NOT_FOUND, Message: err.Error()}
	}
	return &keyspacepb.LoadKeyspaceResponse{Header: header, Keyspace: meta}, nil
}

// metaStorage is PD's service for small values.
type metaStorage struct {
	meta_storagepb.UnimplementedMetaStorageServer
	client pd.Client
}

// Get implements meta_storagepb.MetaStorageServer. It reads one key, or the keys that
// begin with it.
func (s *metaStorage) Get(ctx context.Context, req *meta_storagepb.GetRequest) (*meta_storagepb.GetResponse, error) {
	return s.client.Get(ctx, req.Key)
}

// Put implements meta_storagepb.MetaStorageServer.
func (s *metaStorage) Put(ctx context.Context, req *meta_storagepb.PutRequest) (*meta_storagepb.PutResponse, error) {
	return s.client.Put(ctx, req.Key, req.Value)
}

// Watch implements meta_storagepb.MetaStorageServer.
func (s *metaStorage) Watch(req *meta_storagepb.WatchRequest, stream meta_storagepb.MetaStorage_WatchServer) error {
	events, err := s.client.Watch(stream.Context(), req.Key)
	if err != nil {
		return err
	}
	for batch := range events {
		header := &meta_storagepb.ResponseHeader{ClusterId: s.client.GetClusterID(stream.Context())}
		if err := stream.Send(&meta_storagepb.WatchResponse{Header: header, Events: batch}); err != nil {
			return err
		}
	}
	return stream.Context().Err()
}

// resourceManager is PD's service for resource groups.
type resourceManager struct {
	rmpb.UnimplementedResourceManagerServer
	client pd.Client
}

func groupError(err error) *rmpb.Error {
	if err == nil {
		return nil
	}
	return &rmpb.Error{Message: err.Error()}
}

// ListResourceGroups implements rmpb.ResourceManagerServer.
func (s *resourceManager) ListResourceGroups(ctx context.Context, _ *rmpb.ListResourceGroupsRequest) (*rmpb.ListResourceGroupsResponse, error) {
	groups, err := s.client.ListResourceGroups(ctx)
	return &rmpb.ListResourceGroupsResponse{Error: groupError(err), Groups: groups}, nil
}

// GetResourceGroup implements rmpb.ResourceManagerServer.
func (s *resourceManager) GetResourceGroup(ctx context.Context, req *rmpb.GetResourceGroupRequest) (*rmpb.GetResourceGroupResponse, error) {
	group, err := s.client.GetResourceGroup(ctx, req.ResourceGroupName)
	return &rmpb.GetResourceGroupResponse{Error: groupError(err), Group: group}, nil
}

// AddResourceGroup implements rmpb.ResourceManagerServer.
func (s *resourceManager) AddResourceGroup(ctx context.Context, req *rmpb.PutResourceGroupRequest) (*rmpb.PutResourceGroupResponse, error) {
	body, err := s.client.AddResourceGroup(ctx, req.Group)
	return &rmpb.PutResourceGroupResponse{Error: groupError(err), Body: body}, nil
}

// ModifyResourceGroup implements rmpb.ResourceManagerServer.
func (s *resourceManager) ModifyResourceGroup(ctx context.Context, req *rmpb.PutResourceGroupRequest) (*rmpb.PutResourceGroupResponse, error) {
	body, err := s.client.ModifyResourceGroup(ctx, req.Group)
	return &rmpb.PutResourceGroupResponse{Error: groupError(err), Body: body}, nil
}

// DeleteResourceGroup implements rmpb.ResourceManagerServer.
func (s *resourceManager) DeleteResourceGroup(ctx context.Context, req *rmpb.DeleteResourceGroupRequest) (*rmpb.DeleteResourceGroupResponse, error) {
	body, err := s.client.DeleteResourceGroup(ctx, req.ResourceGroupName)
	return &rmpb.DeleteResourceGroupResponse{Error: groupError(err), Body: body}, nil
}

// AcquireTokenBuckets implements rmpb.ResourceManagerServer.
func (s *resourceManager) AcquireTokenBuckets(stream rmpb.ResourceManager_AcquireTokenBucketsServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		granted, err := s.client.AcquireTokenBuckets(stream.Context(), req)
		if err := stream.Send(&rmpb.TokenBucketsResponse{Error: groupError(err), Responses: granted}); err != nil {
			return err
		}
	}
}
