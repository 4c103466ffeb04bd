package sstimport

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

func TestCut(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	whole := kv.KeyRange{Start: b("b"), End: b("m")}
	require.Equal(t, []kv.KeyRange{whole}, cut(whole, nil))
	require.Equal(t, []kv.KeyRange{whole}, cut(whole, [][]byte{nil, b("b"), b("m"), b("x")}))
	require.Equal(t, []kv.KeyRange{{Start: b("b"), End: b("c")}, {Start: b("c"), End: b("f")}, {Start: b("f"), End: b("m")}},
		cut(whole, [][]byte{b("a"), b("c"), b("f"), b("z")}))
}

// TestSplitKeys: a region that receives much is cut into parts of about the same size,
// one that receives little is not.
func TestSplitKeys(t *testing.T) {
	const target = 100
	samples := func(sizes ...int64) (list []sample) {
		for i, n := range sizes {
			list = append(list, sample{[]byte{byte('a' + i)}, n})
		}
		return list
	}
	keys := func(list [][]byte) string { return string(bytes.Join(list, nil)) }
	require.Empty(t, splitKeys(nil, nil, target))
	require.Empty(t, splitKeys(nil, samples(50, 50, 33), target))
	require.Equal(t, "ac", keys(splitKeys(nil, samples(50, 50, 50, 50), target)), "what is before stays apart")
	require.Equal(t, "c", keys(splitKeys([]byte("a"), samples(50, 50, 50, 50), target)), "there is nothing before")
	require.Equal(t, "bc", keys(splitKeys([]byte("a"), samples(150, 150, 1), target)), "no finer than the samples")

	seed := randtest.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		var list []sample
		var total int64
		for i := range 1 + rnd.IntN(200) {
			n := 1 + rnd.Int64N(20)
			list = append(list, sample{fmt.Appendf(nil, "%04d", i), n})
			total += n
		}
		cuts := splitKeys(list[0].key, list, target)
		require.Equal(t, total > writeLimit(target), len(cuts) > 0)
		sums := make([]int64, len(cuts)+1)
		for _, s := range list {
			part := 0
			for part < len(cuts) && bytes.Compare(cuts[part], s.key) <= 0 {
				part++
			}
			sums[part] += s.bytes
		}
		for _, sum := range sums {
			require.LessOrEqual(t, sum, writeLimit(target), "parts of %d", total)
		}
		require.LessOrEqual(t, int64(len(cuts)), (total+target-1)/target-1, "not more parts than are needed")
	}
}

// TestSource: what a cursor shows, where the last key is and what samples there are, in
// random units and ranges, as a sorted list of pairs has it.
func TestSource(t *testing.T) {
	rnd := randtest.Rand(t)
	f := start(t, nil)
	var units []*unit
	var keys []string
	for at := 0; len(units) < 5; at += rnd.IntN(50) {
		n := 1 + rnd.IntN(2000)
		units = append(units, f.unit(at, at+n, 1+rnd.IntN(3000)).(*unit))
		for i := range n {
			keys = append(keys, key(at+i))
		}
		at += n
	}
	src, err := openSource(t.Context(), units)
	require.NoError(t, err)
	require.Equal(t, len(units), len(src.units))
	some := func() []byte { return fmt.Appendf(nil, "k%06d", rnd.IntN(len(keys)+300)) }
	for range 200 {
		r := kv.KeyRange{Start: some(), End: some()}
		if rnd.IntN(10) == 0 {
			r.End = nil
		}
		if r.Empty() {
			continue
		}
		var want []string
		for _, k := range keys {
			if r.Contains([]byte(k)) {
				want = append(want, k)
			}
		}
		c, err := src.seek(r)
		require.NoError(t, err)
		var got []string
		for c.key != nil {
			got = append(got, string(c.key))
			require.Equal(t, f.want[string(c.key)], string(c.value))
			require.True(t, units[c.unit].keys.Contains(c.key))
			require.NoError(t, c.next())
		}
		require.NoError(t, c.close())
		require.Equal(t, want, got)
		for _, s := range src.samplesIn(r) {
			require.Contains(t, want, string(s.key))
		}
		if len(want) == 0 {
			continue
		}
		require.True(t, src.mayHold(r))
		last, err := src.last(r)
		require.NoError(t, err)
		require.Equal(t, want[len(want)-1], string(last))
	}
	var size, sampled int64
	for k, v := range f.want {
		size += weight([]byte(k), []byte(v))
	}
	for _, s := range src.samplesIn(kv.KeyRange{}) {
		require.Less(t, s.bytes, int64(sampleBytes+4096))
		sampled += s.bytes
	}
	require.Equal(t, size, sampled)
	require.Equal(t, size, src.bytes())
	require.NoError(t, src.close())
}

// TestEstimatedSize: a file never grows by more than what its writer is asked to allow
// for beyond the estimate, however its pairs are.
func TestEstimatedSize(t *testing.T) {
	f := start(t, nil)
	for _, valueBytes := range []int{1, 100, 5000} {
		w, err := f.im.NewWriter(t.Context(), kv.ImportOptions{Dir: f.dir, Version: f.at})
		require.NoError(t, err)
		value := make([]byte, valueBytes)
		rnd := rand.New(rand.NewPCG(1, 1))
		for i := range 20_000 {
			for j := range value {
				value[j] = byte(rnd.Uint32())
			}
			require.NoError(t, w.Add([]byte(key(i)), value))
		}
		estimate := w.EstimatedSize()
		u, err := w.Finish(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, u.Size(), estimate+3*20_000+128<<10, "values of %d bytes", valueBytes)
		require.LessOrEqual(t, estimate, u.Size()+u.Size()/10+128<<10)
		require.NoError(t, u.Discard())
	}
}
