package placement

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkRegions checks that the regions cover everything, without gaps, and that IDs and epochs are used once.
func checkRegions(t *testing.T, rs *Regions, seen map[string]string) {
	t.Helper()
	list := rs.All()
	require.Empty(t, list[0].Keys.Start)
	require.Nil(t, list[len(list)-1].Keys.End)
	for i, r := range list {
		if i > 0 {
			require.Equal(t, list[i-1].Keys.End, r.Keys.Start)
			require.Equal(t, list[i-1], rs.Before(r.Keys.Start))
		}
		require.Equal(t, r, rs.ByID(r.ID))
		require.Equal(t, r, rs.Locate(r.Keys.Start))
		epoch := fmt.Sprintf("%d/%d", r.ID, r.Version)
		keys := r.Keys.String()
		if before, ok := seen[epoch]; ok {
			require.Equal(t, before, keys, "region %s has changed", epoch)
		}
		seen[epoch] = keys
	}
	require.Nil(t, rs.Before(nil))
}

func TestRegionsRandomly(t *testing.T) {
	rnd := randtest.Rand(t)
	rs := NewRegions(1)
	seen := make(map[string]string)
	key := func() []byte { return fmt.Appendf(nil, "%02d", rnd.IntN(30)) }
	for range 500 {
		switch rnd.IntN(4) {
		case 0:
			rs.merge(func(*Region, *Region) bool { return rnd.IntN(2) == 0 })
		default:
			keys := [][]byte{key(), key()}
			for i, r := range rs.Split(keys...) {
				if i == 0 || !bytes.Equal(keys[0], keys[1]) {
					require.True(t, bytes.Equal(r.Keys.Start, keys[0]) || bytes.Equal(r.Keys.Start, keys[1]))
				}
			}
		}
		checkRegions(t, rs, seen)
		r := kv.KeyRange{Start: key(), End: key()}
		if r.Empty() {
			continue
		}
		for _, region := range rs.Overlapping(r, 0) {
			require.False(t, r.Intersect(region.Keys).Empty())
		}
	}
}

func TestCheck(t *testing.T) {
	rs := NewRegions(7)
	all := rs.All()[0]
	rc := &kvrpcpb.Context{RegionId: all.ID, RegionEpoch: all.Meta().RegionEpoch, Peer: all.peer()}
	r, regionErr := rs.Check(rc)
	require.Nil(t, regionErr)
	require.Equal(t, all, r)
	r, regionErr = rs.Check(&kvrpcpb.Context{})
	require.Nil(t, regionErr)
	require.Nil(t, r.Contains([]byte("anything")))
	_, regionErr = rs.Check(&kvrpcpb.Context{RegionId: all.ID, Peer: &metapb.Peer{StoreId: 9}})
	require.NotNil(t, regionErr.GetStoreNotMatch())
	rs.Split([]byte("m"))
	_, regionErr = rs.Check(rc)
	require.Len(t, regionErr.GetEpochNotMatch().GetCurrentRegions(), 2)
	_, regionErr = rs.Check(&kvrpcpb.Context{RegionId: 1000})
	require.NotNil(t, regionErr.GetRegionNotFound())
	require.NotNil(t, rs.Locate([]byte("a")).Contains([]byte("z")).GetKeyNotInRegion())
}

// fakeSizes is a store with a piece of some size at each key.
type fakeSizes []kv.SizedRange

func (f fakeSizes) Ranges(context.Context, kv.KeyRange) ([]kv.SizedRange, error) { return f, nil }

func sizes(mib ...uint64) (f fakeSizes) {
	for i, s := range mib {
		p := kv.SizedRange{Bytes: s << 20}
		if i > 0 {
			p.Start = fmt.Appendf(nil, "%02d", i)
		}
		if i < len(mib)-1 {
			p.End = fmt.Appendf(nil, "%02d", i+1)
		}
		f = append(f, p)
	}
	return f
}

func TestBalance(t *testing.T) {
	rs := NewRegions(1)
	ctx := t.Context()
	require.NoError(t, rs.BalanceOnce(ctx, sizes(40, 40, 40)))
	require.Len(t, rs.All(), 1, "it is not too large yet")
	require.NoError(t, rs.BalanceOnce(ctx, sizes(40, 40, 40, 40, 40, 40, 40, 40)))
	var starts []string
	for _, r := range rs.All() {
		starts = append(starts, string(r.Keys.Start))
	}
	require.Equal(t, []string{"", "03", "06"}, starts)
	require.NoError(t, rs.BalanceOnce(ctx, sizes(40, 40, 40, 40, 40, 40, 40, 40)))
	require.Len(t, rs.All(), 3, "nothing changes any more")
	require.NoError(t, rs.BalanceOnce(ctx, sizes(1, 1, 1, 1, 1, 1, 1, 1)))
	require.Len(t, rs.All(), 3, "they are too young to be joined")
	old := rs.All()
	for _, r := range old {
		r.born = r.born.Add(-2 * mergeAge)
	}
	require.NoError(t, rs.BalanceOnce(ctx, sizes(1, 1, 1, 1, 1, 1, 1, 40)))
	require.Len(t, rs.All(), 2)
	checkRegions(t, rs, make(map[string]string))
}
