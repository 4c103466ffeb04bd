package placement

import (
	"context"
	"fmt"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
)

const defaultKeyspace = "DEFAULT"

func keyspace() *keyspacepb.KeyspaceMeta {
	return &keyspacepb.KeyspaceMeta{Name: defaultKeyspace, State: keyspacepb.KeyspaceState_ENABLED}
}

// LoadKeyspace implements pd.KeyspaceClient: there is only the default keyspace.
func (c *Client) LoadKeyspace(_ context.Context, name string) (*keyspacepb.KeyspaceMeta, error) {
	if name != defaultKeyspace {
		return nil, fmt.Errorf("placement: keyspace %q does not exist", name)
	}
	return keyspace(), nil
}

// UpdateKeyspaceState implements pd.KeyspaceClient: the default keyspace cannot be changed.
func (c *Client) UpdateKeyspaceState(_ context.Context, id uint32, state keyspacepb.KeyspaceState) (*keyspacepb.KeyspaceMeta, error) {
	return nil, fmt.Errorf("placement: keyspace %d cannot be set to %s", id, state)
}

// WatchKeyspaces implements pd.KeyspaceClient.
func (c *Client) WatchKeyspaces(ctx context.Context) (chan []*keyspacepb.KeyspaceMeta, error) {
	ch := make(chan []*keyspacepb.KeyspaceMeta, 1)
	ch <- []*keyspacepb.KeyspaceMeta{keyspace()}
	context.AfterFunc(ctx, func() { close(ch) })
	return ch, nil
}

// GetAllKeyspaces implements pd.KeyspaceClient.
func (c *Client) GetAllKeyspaces(_ context.Context, startID, _ uint32) ([]*keyspacepb.KeyspaceMeta, error) {
	if startID > 0 {
		return nil, nil
	}
	return []*keyspacepb.KeyspaceMeta{keyspace()}, nil
}
