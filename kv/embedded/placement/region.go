package placement

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/util/codec"

	"fastddl/kv"
)

// StoreID is the ID of the only store.
const StoreID = 1

// Region is a range of keys that clients route requests by. It is immutable.
type Region struct {
	ID      uint64
	Keys    kv.KeyRange // plain; a nil End is unbounded
	Version uint64
	born    time.Time
}

// peer is the region's only peer. Its ID is unique like all IDs: regions have the even ones.
func (r *Region) peer() *metapb.Peer { return &metapb.Peer{Id: r.ID + 1, StoreId: StoreID} }

// Meta describes the region as clients get it, with encoded keys.
func (r *Region) Meta() *metapb.Region {
	m := &metapb.Region{
		Id:          r.ID,
		RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: r.Version},
		Peers:       []*metapb.Peer{r.peer()},
	}
	if len(r.Keys.Start) > 0 {
		m.StartKey = codec.EncodeBytes(nil, r.Keys.Start)
	}
	if r.Keys.End != nil {
		m.EndKey = codec.EncodeBytes(nil, r.Keys.End)
	}
	return m
}

// decodeKey decodes a key as PD's clients send it. An empty one, or one that is no encoded key, stands for itself.
func decodeKey(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	_, plain, err := codec.DecodeBytes(key, nil)
	if err != nil {
		return key
	}
	return plain
}

// Regions cut the key space into adjacent regions.
type Regions struct {
	mu     sync.Mutex // held by who changes them
	nextID uint64
	view   atomic.Pointer[regionView]
}

// regionView is the state of all regions at one moment, in key order.
type regionView struct {
	list []*Region
	byID map[uint64]int
}

// NewRegions makes one region of everything. Versions begin at version, so that clients which remember regions of an
// earlier life of the store notice.
func NewRegions(version uint64) *Regions {
	rs := &Regions{nextID: 4}
	rs.publish([]*Region{{ID: 2, Version: version, born: time.Now()}})
	return rs
}

func (rs *Regions) publish(list []*Region) {
	v := &regionView{list: list, byID: make(map[uint64]int, len(list))}
	for i, r := range list {
		v.byID[r.ID] = i
	}
	rs.view.Store(v)
}

// All returns all regions in key order.
func (rs *Regions) All() []*Region { return rs.view.Load().list }

// ByID returns a region, nil if there is none with this ID.
func (rs *Regions) ByID(id uint64) *Region {
	v := rs.view.Load()
	if i, ok := v.byID[id]; ok {
		return v.list[i]
	}
	return nil
}

// Locate returns the region that a key lies in.
func (rs *Regions) Locate(key []byte) *Region {
	v := rs.view.Load()
	return v.list[v.index(key)]
}

func (v *regionView) index(key []byte) int {
	i, exact := slices.BinarySearchFunc(v.list, key, func(r *Region, k []byte) int { return bytes.Compare(r.Keys.Start, k) })
	if exact {
		return i
	}
	return i - 1
}

// Before returns the region before the one that a key lies in, nil if there is none.
func (rs *Regions) Before(key []byte) *Region {
	v := rs.view.Load()
	if i := v.index(key); i > 0 {
		return v.list[i-1]
	}
	return nil
}

// Overlapping returns the regions that have keys in r, at most limit of them if limit is above 0.
func (rs *Regions) Overlapping(r kv.KeyRange, limit int) []*Region {
	v := rs.view.Load()
	list := v.list[v.index(r.Start):]
	n := 0
	for n < len(list) && (limit <= 0 || n < limit) && (r.End == nil || bytes.Compare(list[n].Keys.Start, r.End) < 0) {
		n++
	}
	return list[:n]
}

// Split cuts regions at keys, those that are no boundaries yet, and returns the regions that begin at the keys, in order.
func (rs *Regions) Split(keys ...[]byte) []*Region {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.split(keys)
}

// SplitRegion cuts a region at keys and returns all that it consists of then, in order; nothing if it is no longer as it
// was. Clients count on one piece more than there are keys.
func (rs *Regions) SplitRegion(r *Region, keys ...[]byte) []*Region {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.ByID(r.ID) != r {
		return nil
	}
	rs.split(keys)
	return rs.Overlapping(r.Keys, 0)
}

// split is Split. rs.mu must be held.
func (rs *Regions) split(keys [][]byte) []*Region {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	v := rs.view.Load()
	list := slices.Clone(v.list)
	now := time.Now()
	for _, key := range keys {
		cur := &regionView{list: list}
		i := cur.index(key)
		old := list[i]
		if len(key) == 0 || bytes.Equal(old.Keys.Start, key) {
			continue
		}
		key = bytes.Clone(key)
		// The left part keeps its ID: clients ask for it first.
		left := &Region{ID: old.ID, Keys: kv.KeyRange{Start: old.Keys.Start, End: key}, Version: old.Version + 1, born: now}
		right := &Region{ID: rs.nextID, Keys: kv.KeyRange{Start: key, End: old.Keys.End}, Version: old.Version + 1, born: now}
		rs.nextID += 2
		list = slices.Replace(list, i, i+1, left, right)
	}
	rs.publish(list)
	var out []*Region
	for _, key := range keys {
		out = append(out, rs.Locate(key))
	}
	return out
}

// merge joins each region for which join says so with the one after it.
func (rs *Regions) merge(join func(left, right *Region) bool) (merged int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var list []*Region
	for _, r := range rs.view.Load().list {
		if n := len(list); n > 0 && join(list[n-1], r) {
			left := list[n-1]
			list[n-1] = &Region{
				ID:      left.ID,
				Keys:    kv.KeyRange{Start: left.Keys.Start, End: r.Keys.End},
				Version: max(left.Version, r.Version) + 1,
				born:    left.born,
			}
			merged++
			continue
		}
		list = append(list, r)
	}
	if merged > 0 {
		rs.publish(list)
	}
	return merged
}
