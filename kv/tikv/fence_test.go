package tikv

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"
	pd "github.com/tikv/pd/client"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// splitAt splits regions behind the back of the driver, whose cache does not notice.
func (s *testStore) splitAt(t *testing.T, keys ...string) {
	t.Helper()
	encoded := make([][]byte, len(keys))
	for i, k := range keys {
		encoded[i] = codec.EncodeBytes(nil, []byte(k))
	}
	_, err := s.data.PDClient().SplitRegions(t.Context(), encoded)
	require.NoError(t, err)
}

// regionsNow are the regions of a range as they are.
func (s *testStore) regionsNow(t *testing.T, r kv.KeyRange) []*metapb.Region {
	t.Helper()
	var end []byte
	if r.End != nil {
		end = codec.EncodeBytes(nil, r.End)
	}
	all := []pd.KeyRange{{StartKey: codec.EncodeBytes(nil, r.Start), EndKey: end}}
	list, err := s.data.PDClient().BatchScanRegions(t.Context(), all, 0)
	require.NoError(t, err)
	out := make([]*metapb.Region, len(list))
	for i, region := range list {
		out[i] = region.Meta
	}
	return out
}

// TestFence: no region of the range has an epoch that it had before, again and again and
// with a cache that knows nothing of what has changed; others keep theirs.
func TestFence(t *testing.T) {
	s := openNew(t)
	s.splitAt(t, "a", "m", "n", "z")
	r := kv.KeyRange{Start: []byte("k"), End: []byte("p")}
	_, err := s.Ranges(t.Context(), kv.KeyRange{}) // what the cache knows
	require.NoError(t, err)
	s.splitAt(t, "l", "mm", "nn", "o")
	for round := range 4 { // each doubles the regions
		before := s.regionsNow(t, kv.KeyRange{})
		require.NoError(t, s.Fence(t.Context(), r))
		for _, region := range before {
			_, start, _ := decodeKey(region.StartKey)
			_, end, _ := decodeKey(region.EndKey)
			inside := !r.Intersect(kv.KeyRange{Start: start, End: end}).Empty()
			for _, now := range s.regionsNow(t, kv.KeyRange{}) {
				if now.Id == region.Id {
					require.Equal(t, inside, now.RegionEpoch.Version > region.RegionEpoch.Version, "round %d: region %v", round, region)
				}
			}
		}
	}
	require.NoError(t, s.Fence(t.Context(), kv.KeyRange{Start: []byte("y")}), "to the end of the key space")
	require.NoError(t, s.Fence(t.Context(), kv.KeyRange{Start: []byte("y"), End: []byte("y")}), "nothing")
}

// TestFenceOnce: ranges that lie in one region take one split together, in any order; what lies in
// others is split, too.
func TestFenceOnce(t *testing.T) {
	s := openNew(t)
	s.splitAt(t, "a", "m", "n", "z")
	var ranges []kv.KeyRange
	for i := range 100 {
		ranges = append(ranges, kv.KeyRange{Start: fmt.Appendf(nil, "k%02d", 99-i), End: fmt.Appendf(nil, "k%02d", 100-i)})
	}
	before := s.regionsNow(t, kv.KeyRange{})
	require.NoError(t, s.Fence(t.Context(), ranges...))
	require.Equal(t, len(before)+1, len(s.regionsNow(t, kv.KeyRange{})))

	before = s.regionsNow(t, kv.KeyRange{})
	require.NoError(t, s.Fence(t.Context(),
		kv.KeyRange{Start: []byte("o"), End: []byte("p")}, kv.KeyRange{Start: []byte("q")}, kv.KeyRange{Start: []byte("l"), End: []byte("o")}))
	after := s.regionsNow(t, kv.KeyRange{})
	require.Equal(t, len(before)+4, len(after), "those that hold l, m, n and z")
	for _, region := range before {
		_, start, _ := decodeKey(region.StartKey)
		for _, now := range after {
			if now.Id == region.Id {
				require.Equal(t, bytes.Compare(start, []byte("k")) >= 0, now.RegionEpoch.Version > region.RegionEpoch.Version, "%v", region)
			}
		}
	}
	require.NoError(t, s.Fence(t.Context()), "nothing")
}

func decodeKey(encoded []byte) (rest, key []byte, err error) {
	if len(encoded) == 0 {
		return nil, nil, nil
	}
	return codec.DecodeBytes(encoded, nil)
}

// TestSplitKey: a region can be split again and again, down to a region of one key.
func TestSplitKey(t *testing.T) {
	rnd := randtest.Rand(t)
	key := func() []byte {
		k := make([]byte, rnd.IntN(4))
		for i := range k {
			k[i] = "\x00\x01a\xff"[rnd.IntN(4)]
		}
		return k
	}
	for range 20_000 {
		start, end, r := key(), key(), kv.KeyRange{Start: key(), End: key()}
		if len(end) > 0 && bytes.Compare(start, end) >= 0 {
			continue
		}
		what := fmt.Sprintf("%x to %x, for %s", start, end, r)
		for range 3 {
			split, ok := splitKey(start, end, r)
			if !ok {
				require.Equal(t, kv.NextKey(start), end, what)
				break
			}
			require.Positive(t, bytes.Compare(split, start), what)
			require.True(t, len(end) == 0 || bytes.Compare(split, end) < 0, what)
			if rnd.IntN(2) == 0 {
				start = slices.Clone(split)
			} else {
				end = slices.Clone(split)
			}
		}
	}
	split, ok := splitKey([]byte("t"), nil, kv.KeyRange{Start: []byte("a"), End: []byte("z")})
	require.True(t, ok)
	require.Equal(t, "z", string(split), "an end of the range is taken first")
}
