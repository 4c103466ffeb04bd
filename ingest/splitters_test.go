package ingest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSplittersFindThePartition: the search finds the partition that a comparison with all
// splitters gives, for any distribution and any common prefix of the keys.
func TestSplittersFindThePartition(t *testing.T) {
	r := newRand(t)
	for name, shape := range keyShapes {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				var keys [][]byte
				for i := range 500 {
					keys = append(keys, shape(r, i))
				}
				s := newSplitters(keys[:r.IntN(len(keys))], 1+r.IntN(200))
				if s != nil {
					// Next to a splitter, and beyond what all of them have in common.
					for _, k := range s.keys {
						keys = append(keys, k, append(bytes.Clone(k), 0), k[:max(0, len(k)-1)])
					}
					keys = append(keys, []byte{}, []byte{0}, []byte{0xff}, s.common, append(bytes.Clone(s.common), 0xff))
				}
				for _, key := range keys {
					want := 0
					for s != nil && want < len(s.keys) && bytes.Compare(s.keys[want], key) <= 0 {
						want++
					}
					p := s.find(key)
					require.Equal(t, want, p, "key %x", key)
					if s != nil {
						kr := s.keyRange(p, p+1)
						require.True(t, kr.start == nil || bytes.Compare(kr.start, key) <= 0)
						require.True(t, kr.end == nil || bytes.Compare(key, kr.end) < 0)
					}
				}
			}
		})
	}
}

func TestSplittersMakePartitionsOfEqualSize(t *testing.T) {
	r := newRand(t)
	for _, name := range []string{"random integers with handles", "few distinct values", "long common part in groups"} {
		var keys [][]byte
		for i := range 10_000 {
			keys = append(keys, keyShapes[name](r, i))
		}
		s := newSplitters(keys, 10)
		sizes := make([]int, s.count())
		for _, k := range keys {
			sizes[s.find(k)]++
		}
		require.Len(t, sizes, 10, name)
		for _, n := range sizes {
			require.InDelta(t, 1000, n, 30, "%s: %v", name, sizes)
		}
	}
	require.Nil(t, newSplitters(nil, 10))
	require.Nil(t, newSplitters(slices.Repeat([][]byte{[]byte("same")}, 100), 10))
	require.Nil(t, newSplitters([][]byte{[]byte("a"), []byte("b")}, 1))
}
