package placement

import (
	"fmt"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/util/codec"
)

// Check returns the region that a request's context names, or how its client is mistaken about it. Requests to the store
// as a whole name none.
func (rs *Regions) Check(rc *kvrpcpb.Context) (*Region, *errorpb.Error) {
	id := rc.GetRegionId()
	if id == 0 {
		return nil, nil
	}
	if p := rc.GetPeer(); p != nil && p.StoreId != StoreID {
		return nil, &errorpb.Error{
			Message:       fmt.Sprintf("request is for store %d", p.StoreId),
			StoreNotMatch: &errorpb.StoreNotMatch{RequestStoreId: p.StoreId, ActualStoreId: StoreID},
		}
	}
	r := rs.ByID(id)
	if r == nil {
		return nil, &errorpb.Error{
			Message:        fmt.Sprintf("region %d not found", id),
			RegionNotFound: &errorpb.RegionNotFound{RegionId: id},
		}
	}
	if v := rc.GetRegionEpoch().GetVersion(); v != r.Version {
		return nil, rs.epochNotMatch(r, v)
	}
	return r, nil
}

// epochNotMatch is the error for a client that knows an old version of a region, with what is left of it and the region
// after it, which was split off last.
func (rs *Regions) epochNotMatch(r *Region, version uint64) *errorpb.Error {
	current := []*metapb.Region{r.Meta()}
	if r.Keys.End != nil {
		current = append(current, rs.Locate(r.Keys.End).Meta())
	}
	return &errorpb.Error{
		Message:       fmt.Sprintf("region %d has epoch version %d, not %d", r.ID, r.Version, version),
		EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: current},
	}
}

// Contains checks that a key lies in the region. A nil region is everything.
func (r *Region) Contains(key []byte) *errorpb.Error {
	if r == nil || r.Keys.Contains(key) {
		return nil
	}
	m := r.Meta()
	return &errorpb.Error{
		Message: fmt.Sprintf("key %x is not in region %d", key, r.ID),
		KeyNotInRegion: &errorpb.KeyNotInRegion{
			Key:      codec.EncodeBytes(nil, key),
			RegionId: r.ID,
			StartKey: m.StartKey,
			EndKey:   m.EndKey,
		},
	}
}
