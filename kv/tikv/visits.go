package tikv

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/tikv/client-go/v2/tikv"

	"fastddl/kv"
)

const (
	// maxVisitBytes bounds the memory of the visits of all timestamps, of which each build has one at a time; a visit is of a page of about
	// a megabyte, and takes visitBytes and its keys.
	maxVisitBytes, visitBytes = 64 << 20, 160
	// maxVisitAge is when visits are forgotten of a timestamp at which nothing has been visited since.
	maxVisitAge = 24 * time.Hour
)

// place is a region as it was split and placed when it answered. Data versions of other places say nothing of it.
type place struct {
	region tikv.RegionVerID
	leader uint64 // its store
}

// placeOf returns the place of a region, as the cache has it.
func (s *Store) placeOf(region tikv.RegionVerID) place {
	p := place{region: region}
	if cached := s.cluster.GetRegionCache().GetCachedRegionWithRLock(region); cached != nil {
		p.leader = cached.GetLeaderStoreID()
	}
	return p
}

// visit is the visit of a scan to the keys from one on up to end: so many records were visible, and there was no lock and no
// newer version in the region's data as of a version.
type visit struct {
	end     string
	version uint64
	records int
}

// visits are what scans of this process have visited, by their timestamps.
type visits struct {
	mu    sync.Mutex
	byTS  map[uint64]*visited
	order []uint64 // of the timestamps, the oldest first
	bytes int      // of all
}

// visited is what scans at one timestamp have visited, by place and first key.
type visited struct {
	at    map[place]map[string]visit
	bytes int
	end   *time.Timer // at which it is forgotten
}

// forget forgets what was visited at a timestamp. The caller holds mu.
func (v *visits) forget(ts uint64) {
	if of := v.byTS[ts]; of != nil {
		of.end.Stop()
		v.bytes -= of.bytes
		delete(v.byTS, ts)
		v.order = slices.DeleteFunc(v.order, func(other uint64) bool { return other == ts })
	}
}

// add adds what an answer is of, unless it does not say that nothing is newer.
func (v *visits) add(ts uint64, a *regionAnswer, records int) {
	if !a.CanBeCached || a.CacheLastVersion == 0 || a.where.leader == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	of := v.byTS[ts]
	if of == nil {
		if v.byTS == nil {
			v.byTS = make(map[uint64]*visited)
		}
		of = &visited{at: make(map[place]map[string]visit)}
		of.end = time.AfterFunc(maxVisitAge, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.forget(ts)
		})
		v.byTS[ts], v.order = of, append(v.order, ts)
	}
	size := visitBytes + len(a.part.Start) + len(a.part.End)
	for v.bytes+size > maxVisitBytes && v.order[0] != ts {
		v.forget(v.order[0])
	}
	if v.bytes+size > maxVisitBytes {
		return
	}
	of.end.Reset(maxVisitAge)
	here := of.at[a.where]
	if here == nil {
		here = make(map[string]visit)
		of.at[a.where] = here
	}
	if _, again := here[string(a.part.Start)]; !again {
		of.bytes += size
		v.bytes += size
	}
	here[string(a.part.Start)] = visit{string(a.part.End), a.CacheLastVersion, records}
}

// inside returns the visits at ts and a place that begin in r, by their first keys.
func (v *visits) inside(ts uint64, r kv.KeyRange, where place) map[string]visit {
	v.mu.Lock()
	defer v.mu.Unlock()
	inside := make(map[string]visit)
	if of := v.byTS[ts]; of != nil {
		for start, visit := range of.at[where] {
			if r.Contains([]byte(start)) {
				inside[start] = visit
			}
		}
	}
	return inside
}

// of returns how many records scans at ts have visited in r, and of which version of its region's data, and the ranges that
// they have not visited; ok is false if they have visited none of it at this place, or not of one version.
func (v *visits) of(ts uint64, r kv.KeyRange, where place) (records int64, version uint64, gaps []kv.KeyRange, ok bool) {
	inside := v.inside(ts, r, where)
	at := string(r.Start)
	for _, start := range slices.Sorted(maps.Keys(inside)) {
		next := inside[start]
		if start < at || next.end > string(r.End) { // of another page of another scan, or cut by r
			continue
		}
		if version != 0 && version != next.version {
			return 0, 0, nil, false
		}
		if start > at {
			gaps = append(gaps, kv.KeyRange{Start: []byte(at), End: []byte(start)})
		}
		records += int64(next.records)
		at, version = next.end, next.version
	}
	if at < string(r.End) {
		gaps = append(gaps, kv.KeyRange{Start: []byte(at), End: r.End})
	}
	return records, version, gaps, version != 0
}

// untouched says that nothing has been written to a region since scans at the timestamp since have visited some of part, up to
// upTo, how many records they have visited there, and which ranges of part they have not visited.
//
// TiKV's version of a region's data is the index of the last command that was applied to it (get_data_version in
// components/raftstore/src/store/region_snapshot.rs), imports included, and the answer is a cache hit if it is still the
// one that was named (handle_unary_request_impl in src/coprocessor/endpoint.rs). So no lock and no record was written
// since. Locks in memory, of commits in one phase and by async commit, are looked at before that with the request's
// timestamp, which those that follow commit above: so it is upTo.
func (s *Store) untouched(bo *tikv.Backoffer, region tikv.RegionVerID, part kv.KeyRange, since, upTo uint64) (records int64, gaps []kv.KeyRange, ok bool, err error) {
	where := s.placeOf(region)
	records, version, gaps, ok := s.visits.of(since, part, where)
	if !ok {
		return 0, nil, false, nil
	}
	data, err := firstDAG(tablecodec.DecodeTableID(part.Start))
	if err != nil {
		return 0, nil, false, err
	}
	answer, err := s.sendCop(bo, region, &coprocessor.Request{
		Tp: tidbkv.ReqTypeDAG, StartTs: upTo, Data: data, Ranges: copRanges(part), IsCacheEnabled: true, CacheIfMatchVersion: version,
	}, nil)
	if err != nil {
		return 0, nil, false, fmt.Errorf("region %d: %w", region.GetID(), err)
	}
	hit := answer.IsCacheHit && answer.RegionError == nil && answer.Locked == nil && answer.OtherError == ""
	return records, gaps, hit && s.placeOf(region) == where, nil
}

// firstDAG reads one row: what a request costs that is no cache hit.
func firstDAG(tableID int64) ([]byte, error) {
	return dagOf(1,
		&tipb.Executor{Tp: tipb.ExecType_TypeTableScan, TblScan: &tipb.TableScan{
			TableId: tableID, Columns: []*tipb.ColumnInfo{hiddenHandle()},
		}},
		&tipb.Executor{Tp: tipb.ExecType_TypeLimit, Limit: &tipb.Limit{Limit: 1}})
}
