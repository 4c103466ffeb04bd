package distribution_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/stretchr/testify/require"

	"fastddl/ingest/distribution"
	"fastddl/internal/randtest"
)

const prefix = "t_i"

// randomKeys returns sorted keys of an index of some columns, each with a handle, and how many rows each value has.
func randomKeys(r *rand.Rand, columns, rows, values int) (keys [][]byte, rowsOf map[string]int64) {
	rowsOf = make(map[string]int64)
	for i := range rows {
		n := int64(r.IntN(values))
		if r.IntN(2) == 0 {
			n = int64(r.IntN(1 + values/10))
		}
		var datums []types.Datum
		for range columns {
			switch kind := n % 4; {
			case r.IntN(20) == 0 && n%7 == 0:
				datums = append(datums, types.NewDatum(nil))
			case kind == 0:
				datums = append(datums, types.NewIntDatum(n))
			case kind == 1:
				datums = append(datums, types.NewBytesDatum(bytes.Repeat([]byte{byte(n)}, int(n%30))))
			case kind == 2:
				datums = append(datums, types.NewDecimalDatum(types.NewDecFromInt(n*1000+7)))
			default:
				datums = append(datums, types.NewFloat64Datum(float64(n)/3))
			}
		}
		value, err := codec.EncodeKey(nil, nil, datums...)
		if err != nil {
			panic(err)
		}
		if columns > 1 || !datums[0].IsNull() {
			rowsOf[string(value)]++
		}
		key, err := codec.EncodeKey(nil, slices.Concat([]byte(prefix), value), types.NewIntDatum(int64(i)))
		if err != nil {
			panic(err)
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys, rowsOf
}

// summarize sums up keys that are divided among some collectors.
func summarize(t *testing.T, r *rand.Rand, keys [][]byte, opts distribution.Options) *distribution.Summary {
	t.Helper()
	var parts []*distribution.Summary
	for first := true; first || len(keys) > 0; first = false {
		n := r.IntN(len(keys) + 1)
		if r.IntN(3) == 0 {
			n = len(keys)
		}
		c := distribution.New(opts)
		for _, k := range keys[:n] {
			c.Add(k, len(prefix))
		}
		keys = keys[n:]
		s, err := c.Finish()
		require.NoError(t, err)
		parts = append(parts, s)
	}
	return distribution.Join(parts)
}

// requireSound fails unless buckets are in order and have all rows.
func requireSound(t *testing.T, s *distribution.Summary) {
	t.Helper()
	var rows, different int64
	for i, b := range s.Buckets {
		require.LessOrEqual(t, bytes.Compare(b.Lower, b.Upper), 0)
		require.True(t, i == 0 || bytes.Compare(s.Buckets[i-1].Upper, b.Lower) < 0, "bucket %d overlaps", i)
		require.Positive(t, b.Rows)
		require.LessOrEqual(t, b.Repeat, b.Rows)
		rows += b.Rows
		different += b.Different
	}
	require.Equal(t, s.Rows, rows)
	if !s.Merged {
		require.Equal(t, s.Different, different)
	}
}

// A summary of one stream counts rows, NULLs and values exactly, and has the most frequent values, however the stream is cut.
func TestSummaryIsExact(t *testing.T) {
	r := randtest.Rand(t)
	for range 100 {
		columns := 1 + r.IntN(3)
		keys, rowsOf := randomKeys(r, columns, r.IntN(3000), 1+r.IntN(1000))
		opts := distribution.Options{Columns: columns, BucketRows: int64(1 + r.IntN(2)*r.IntN(100)), Hashed: r.IntN(2) == 0}
		s := summarize(t, r, keys, opts)
		requireSound(t, s)
		var rows int64
		for _, n := range rowsOf {
			rows += n
		}
		require.Equal(t, rows, s.Rows)
		require.Equal(t, int64(len(keys))-rows, s.Nulls)
		require.Equal(t, int64(len(rowsOf)), s.Different)
		require.True(t, opts.BucketRows > 1 || s.Whole())
		counts := make([]int64, 0, len(rowsOf))
		for _, n := range rowsOf {
			counts = append(counts, n)
		}
		slices.SortFunc(counts, func(a, b int64) int { return int(b - a) })
		for i, v := range s.MostFrequent(100) {
			require.Equal(t, counts[i], v.Rows)
			require.Equal(t, v.Rows, rowsOf[string(v.Key)])
		}
	}
}

// Summaries of streams that lie between each other have all rows and NULLs, and count the values within five percent; exactly while they are whole.
func TestMerge(t *testing.T) {
	r := randtest.Rand(t)
	for range 30 {
		columns := 1 + r.IntN(2)
		keys, rowsOf := randomKeys(r, columns, r.IntN(20000), 1+r.IntN(9000))
		streams := make([][][]byte, 1+r.IntN(6))
		for _, k := range keys {
			i := r.IntN(len(streams))
			streams[i] = append(streams[i], k)
		}
		var sum *distribution.Summary
		var rows int64
		for _, n := range rowsOf {
			rows += n
		}
		for _, keys := range streams {
			s := summarize(t, r, keys, distribution.Options{Columns: columns, BucketRows: int64(1 + len(keys)/1024), Hashed: true, Sampled: true})
			s.Shorten()
			data, err := json.Marshal(s)
			require.NoError(t, err)
			var read distribution.Summary
			require.NoError(t, json.Unmarshal(data, &read))
			require.True(t, read.Valid())
			sum, err = distribution.Merge(sum, &read)
			require.NoError(t, err)
			requireSound(t, sum)
		}
		require.Equal(t, rows, sum.Rows)
		require.Equal(t, int64(len(keys))-rows, sum.Nulls)
		if sum.Whole() {
			require.Equal(t, int64(len(rowsOf)), sum.Different)
		} else {
			require.InEpsilon(t, len(rowsOf), sum.Different, 0.05)
		}
		require.LessOrEqual(t, len(sum.Buckets), 1024)
		// A value that has a tenth of all rows is listed, with about as many.
		for _, v := range sum.MostFrequent(8) {
			if n := rowsOf[string(v.Key)]; n > rows/10 {
				require.InEpsilon(t, n, v.Rows, 0.1)
			}
		}
	}
}

// A sketch counts from none to millions of values within five percent, after merging, too.
func TestSketch(t *testing.T) {
	r := randtest.Rand(t)
	for _, n := range []int{0, 1, 10, 1000, 10_000, 40_000, 100_000, 1_000_000} {
		a, b := distribution.NewSketch(), distribution.NewSketch()
		third := 0
		for range n {
			hash := r.Uint64()
			a.Add(hash)
			if r.IntN(3) == 0 {
				b.Add(hash)
				third++
			}
		}
		if n < 10 {
			require.Equal(t, int64(n), a.Count())
			continue
		}
		require.InEpsilon(t, n, a.Count(), 0.05)
		if n >= 1000 {
			require.InEpsilon(t, third, b.Count(), 0.05)
		}
	}
}

// A key that ends within its columns is reported, and does not panic.
func TestDamagedKey(t *testing.T) {
	whole, err := codec.EncodeKey(nil, []byte(prefix), types.NewBytesDatum([]byte("0123456789")), types.NewIntDatum(1), types.NewDecimalDatum(types.NewDecFromInt(7)))
	require.NoError(t, err)
	for n := len(prefix); n < len(whole); n++ {
		c := distribution.New(distribution.Options{Columns: 3, BucketRows: 1})
		c.Add(whole[:n], len(prefix))
		c.Add(whole, len(prefix))
		_, err := c.Finish()
		require.Error(t, err, n)
	}
}

// BenchmarkAdd is what an entry costs, in an index whose values are all different and in one of few values.
func BenchmarkAdd(b *testing.B) {
	for name, values := range map[string]int64{"different": 1 << 40, "few": 100} {
		for _, hashed := range []bool{false, true} {
			keys := make([][]byte, 1<<16)
			for i := range keys {
				n := int64(i) * min(values, 1<<16) >> 16
				keys[i], _ = codec.EncodeKey(nil, []byte("t12345678_i12345678"), types.NewIntDatum(n), types.NewIntDatum(int64(i)))
			}
			b.Run(map[bool]string{false: name, true: name + "/hashed"}[hashed], func(b *testing.B) {
				b.ReportAllocs()
				c := distribution.New(distribution.Options{Columns: 1, BucketRows: 1 << 10, Hashed: hashed})
				for i := range b.N {
					c.Add(keys[i&(1<<16-1)], 19)
				}
			})
		}
	}
}
