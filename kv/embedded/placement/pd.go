package placement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"encoding/binary"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/tikv/client-go/v2/oracle"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

const recordClusterID = "pd/cluster-id"

// Client is PD's client interface over a store in this process. Closing it does nothing: it lives as long as the store.
type Client struct {
	store     *pebblekv.Store
	regions   *Regions
	address   string
	version   string
	log       *zap.Logger
	clusterID uint64
	started   time.Time

	gc     safePoints
	meta   *metaStorage
	groups *resourceGroups
	extTS  sync.Mutex
}

var _ pd.Client = (*Client)(nil)

// Options configure a Client.
type Options struct {
	// Address is the store's address that clients get.
	Address string
	// Version is the version the store reports, as "8.5.0".
	Version string
	Logger  *zap.Logger
}

// NewClient opens PD's part of a store. Stop must be called before the store is closed.
func NewClient(ctx context.Context, store *pebblekv.Store, regions *Regions, opts Options) (*Client, error) {
	c := &Client{
		store:   store,
		regions: regions,
		address: opts.Address,
		version: opts.Version,
		log:     opts.Logger,
		started: time.Now(),
	}
	var err error
	if c.clusterID, err = loadClusterID(ctx, store); err != nil {
		return nil, err
	}
	if c.meta, err = loadMetaStorage(ctx, store); err != nil {
		return nil, err
	}
	if c.groups, err = loadResourceGroups(ctx, c.meta); err != nil {
		return nil, err
	}
	if err := c.gc.load(ctx, store, opts.Logger); err != nil {
		return nil, err
	}
	return c, nil
}

// Stop ends the work in the background. The channel is closed when it has ended, for which it may have to wait for the store.
func (c *Client) Stop() (stopped <-chan struct{}) {
	c.gc.cancel()
	return c.gc.stopped
}

// loadClusterID returns the ID of the store, made up the first time.
func loadClusterID(ctx context.Context, store *pebblekv.Store) (uint64, error) {
	raw, err := store.LoadMeta(ctx, recordClusterID)
	if err != nil {
		return 0, err
	}
	if len(raw) == 8 {
		return binary.BigEndian.Uint64(raw), nil
	}
	id := rand.Uint64()>>1 | 1
	return id, store.SaveMeta(ctx, recordClusterID, binary.BigEndian.AppendUint64(nil, id))
}

// IdentityRecords are the records by which a cluster differs from all others. They are made anew where they are missing.
func IdentityRecords() []string { return []string{recordClusterID} }

// GetClusterID implements pd.Client.
func (c *Client) GetClusterID(context.Context) uint64 { return c.clusterID }

// GetLeaderURL implements pd.Client: there is no PD to connect to.
func (c *Client) GetLeaderURL() string { return "" }

// GetAllMembers implements pd.Client.
func (c *Client) GetAllMembers(context.Context) ([]*pdpb.Member, error) { return nil, nil }

// UpdateOption implements pd.Client: no option has a meaning here.
func (c *Client) UpdateOption(pd.DynamicOption, any) error { return nil }

// Close implements pd.Client.
func (c *Client) Close() {}

func (c *Client) region(r *Region) *pd.Region {
	if r == nil {
		return nil
	}
	return &pd.Region{Meta: r.Meta(), Leader: r.peer()}
}

func (c *Client) regionList(list []*Region) []*pd.Region {
	out := make([]*pd.Region, len(list))
	for i, r := range list {
		out[i] = c.region(r)
	}
	return out
}

// GetRegion implements pd.Client.
func (c *Client) GetRegion(_ context.Context, key []byte, _ ...pd.GetRegionOption) (*pd.Region, error) {
	return c.region(c.regions.Locate(decodeKey(key))), nil
}

// GetRegionFromMember implements pd.Client.
func (c *Client) GetRegionFromMember(ctx context.Context, key []byte, _ []string, opts ...pd.GetRegionOption) (*pd.Region, error) {
	return c.GetRegion(ctx, key, opts...)
}

// GetPrevRegion implements pd.Client.
func (c *Client) GetPrevRegion(_ context.Context, key []byte, _ ...pd.GetRegionOption) (*pd.Region, error) {
	return c.region(c.regions.Before(decodeKey(key))), nil
}

// GetRegionByID implements pd.Client.
func (c *Client) GetRegionByID(_ context.Context, id uint64, _ ...pd.GetRegionOption) (*pd.Region, error) {
	return c.region(c.regions.ByID(id)), nil
}

// ScanRegions implements pd.Client.
func (c *Client) ScanRegions(_ context.Context, key, endKey []byte, limit int, _ ...pd.GetRegionOption) ([]*pd.Region, error) {
	r := kv.KeyRange{Start: decodeKey(key), End: decodeKey(endKey)}
	return c.regionList(c.regions.Overlapping(r, limit)), nil
}

// BatchScanRegions implements pd.Client.
func (c *Client) BatchScanRegions(_ context.Context, ranges []pd.KeyRange, limit int, _ ...pd.GetRegionOption) ([]*pd.Region, error) {
	var found []*Region
	seen := make(map[uint64]bool)
	for _, r := range ranges {
		plain := kv.KeyRange{Start: decodeKey(r.StartKey), End: decodeKey(r.EndKey)}
		for _, region := range c.regions.Overlapping(plain, 0) {
			if limit > 0 && len(found) == limit {
				return c.regionList(found), nil
			}
			if !seen[region.ID] {
				seen[region.ID] = true
				found = append(found, region)
			}
		}
	}
	return c.regionList(found), nil
}

// storeMeta describes the store. It has no status port: with an address TiDB would look for
// one, in the network.
func (c *Client) storeMeta() *metapb.Store {
	return &metapb.Store{
		Id:             StoreID,
		Address:        c.address,
		PeerAddress:    c.address,
		State:          metapb.StoreState_Up,
		NodeState:      metapb.NodeState_Serving,
		Version:        c.version,
		StartTimestamp: c.started.Unix(),
		LastHeartbeat:  time.Now().UnixNano(),
	}
}

// GetStore implements pd.Client.
func (c *Client) GetStore(_ context.Context, id uint64) (*metapb.Store, error) {
	if id != StoreID {
		return nil, fmt.Errorf("placement: invalid store ID %d, not found", id)
	}
	return c.storeMeta(), nil
}

// GetAllStores implements pd.Client.
func (c *Client) GetAllStores(context.Context, ...pd.GetStoreOption) ([]*metapb.Store, error) {
	return []*metapb.Store{c.storeMeta()}, nil
}

// ScatterRegion implements pd.Client: there is nowhere to scatter to.
func (c *Client) ScatterRegion(context.Context, uint64) error { return nil }

// ScatterRegions implements pd.Client.
func (c *Client) ScatterRegions(context.Context, []uint64, ...pd.RegionsOption) (*pdpb.ScatterRegionResponse, error) {
	return &pdpb.ScatterRegionResponse{Header: c.header(), FinishedPercentage: 100}, nil
}

// SplitRegions implements pd.Client.
func (c *Client) SplitRegions(_ context.Context, keys [][]byte, _ ...pd.RegionsOption) (*pdpb.SplitRegionsResponse, error) {
	return &pdpb.SplitRegionsResponse{Header: c.header(), FinishedPercentage: 100, RegionsId: c.split(keys)}, nil
}

// SplitAndScatterRegions implements pd.Client.
func (c *Client) SplitAndScatterRegions(_ context.Context, keys [][]byte, _ ...pd.RegionsOption) (*pdpb.SplitAndScatterRegionsResponse, error) {
	return &pdpb.SplitAndScatterRegionsResponse{
		Header:                    c.header(),
		SplitFinishedPercentage:   100,
		ScatterFinishedPercentage: 100,
		RegionsId:                 c.split(keys),
	}, nil
}

func (c *Client) split(encoded [][]byte) []uint64 {
	keys := make([][]byte, len(encoded))
	for i, k := range encoded {
		keys[i] = decodeKey(k)
	}
	var ids []uint64
	for _, r := range c.regions.Split(keys...) {
		ids = append(ids, r.ID)
	}
	return ids
}

// GetOperator implements pd.Client: everything that was asked for is done.
func (c *Client) GetOperator(_ context.Context, regionID uint64) (*pdpb.GetOperatorResponse, error) {
	return &pdpb.GetOperatorResponse{Header: c.header(), RegionId: regionID, Status: pdpb.OperatorStatus_SUCCESS}, nil
}

func (c *Client) header() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: c.clusterID} }

// timestamp splits a timestamp as PD hands it out.
func timestamp(ts uint64) (physical, logical int64) {
	return oracle.ExtractPhysical(ts), oracle.ExtractLogical(ts)
}

// GetTS implements pd.Client.
func (c *Client) GetTS(ctx context.Context) (physical, logical int64, err error) {
	ts, err := c.store.CurrentTS(ctx)
	if err != nil {
		return 0, 0, err
	}
	physical, logical = timestamp(ts)
	return physical, logical, nil
}

// tsFuture is a timestamp that is there already.
type tsFuture struct {
	ts  uint64
	err error
}

// Wait implements pd.TSFuture.
func (f tsFuture) Wait() (physical, logical int64, err error) {
	physical, logical = timestamp(f.ts)
	return physical, logical, f.err
}

// GetTSAsync implements pd.Client. Handing out a timestamp is too little work to be put off.
func (c *Client) GetTSAsync(ctx context.Context) pd.TSFuture {
	ts, err := c.store.CurrentTS(ctx)
	return tsFuture{ts, err}
}

// GetLocalTS implements pd.Client.
func (c *Client) GetLocalTS(ctx context.Context, _ string) (physical, logical int64, err error) {
	return c.GetTS(ctx)
}

// GetLocalTSAsync implements pd.Client.
func (c *Client) GetLocalTSAsync(ctx context.Context, _ string) pd.TSFuture { return c.GetTSAsync(ctx) }

// GetMinTS implements pd.Client.
func (c *Client) GetMinTS(ctx context.Context) (physical, logical int64, err error) {
	return c.GetTS(ctx)
}
