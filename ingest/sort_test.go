package ingest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newRand returns a generator whose seed is printed.
func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// keyShapes are generators of keys that stress different parts of the sort.
var keyShapes = map[string]func(r *rand.Rand, i int) []byte{
	"ascending": func(_ *rand.Rand, i int) []byte { return intKey(uint64(i), 0) },
	"random integers with handles": func(r *rand.Rand, i int) []byte {
		return intKey(r.Uint64N(1<<21), uint64(i))
	},
	"few distinct values": func(r *rand.Rand, i int) []byte { return intKey(r.Uint64N(3), uint64(i)) },
	"few distinct values, handles descending": func(r *rand.Rand, i int) []byte {
		return intKey(r.Uint64N(3), 1<<32-uint64(i))
	},
	"all equal": func(*rand.Rand, int) []byte { return []byte("same") },
	"long common part in groups": func(r *rand.Rand, i int) []byte {
		return fmt.Appendf(nil, "https://host-%d.example.org/path/to/%d", r.IntN(4), r.IntN(1000))
	},
	"prefixes of each other and zeros": func(r *rand.Rand, _ int) []byte {
		return bytes.Repeat([]byte{byte(r.IntN(2))}, 1+r.IntN(24))
	},
	"arbitrary bytes": func(r *rand.Rand, _ int) []byte {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	},
	"long": func(r *rand.Rand, _ int) []byte {
		return bytes.Repeat([]byte{byte('a' + r.IntN(3))}, 100+r.IntN(3000))
	},
}

func intKey(v, handle uint64) []byte {
	b := []byte{3}
	b = binary.BigEndian.AppendUint64(b, v^1<<63)
	b = append(b, 3)
	return binary.BigEndian.AppendUint64(b, handle^1<<63)
}

func TestSortOrdersKeysAndKeepsEqualOnesInOrder(t *testing.T) {
	r := newRand(t)
	for name, shape := range keyShapes {
		for _, n := range []int{0, 1, 2, 3, radixMin - 1, radixMin, 2000} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				var a arena
				var want [][]byte
				for i := range n {
					key := shape(r, i)
					want = append(want, key)
					require.NoError(t, a.append(key, binary.BigEndian.AppendUint32(nil, uint32(i))))
				}
				slices.SortStableFunc(want, bytes.Compare)

				var s sorter
				order := s.sort(&a)
				require.Len(t, order, n)
				lastValue := uint32(0)
				for i, pos := range order {
					kv, klen := a.record(pos)
					require.Equal(t, want[i], append([]byte{}, kv[:klen]...), "entry %d", i)
					value := binary.BigEndian.Uint32(kv[klen:])
					if i > 0 && bytes.Equal(want[i], want[i-1]) {
						require.Greater(t, value, lastValue, "equal keys have changed places")
					}
					lastValue = value
				}
				a.release()
			})
		}
	}
}

func TestArenaRefusesEntriesLargerThanABlock(t *testing.T) {
	var a arena
	require.NoError(t, a.append(make([]byte, MaxEntrySize), nil))
	require.ErrorContains(t, a.append(make([]byte, MaxEntrySize), []byte{1}), "larger than")
	require.Equal(t, 1, a.count)
	a.release()
}

func TestCommonPrefix(t *testing.T) {
	r := newRand(t)
	for range 2000 {
		a := make([]byte, r.IntN(30))
		b := slices.Clone(a)
		b = append(b, make([]byte, r.IntN(10))...)
		if len(b) > 0 && r.IntN(2) == 0 {
			b[r.IntN(len(b))] = 1
		}
		want := 0
		for want < min(len(a), len(b)) && a[want] == b[want] {
			want++
		}
		require.Equal(t, want, commonPrefix(a, b), "%x %x", a, b)
	}
}

// fillArena appends n sysbench-like entries of the index on k.
func fillArena(b *testing.B, n int, key func(r *rand.Rand, i int) []byte) *arena {
	r := rand.New(rand.NewPCG(1, 2))
	var a arena
	for i := range n {
		require.NoError(b, a.append(key(r, i), []byte{'0'}))
	}
	return &a
}

func BenchmarkAppend(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	kv := append(intKey(r.Uint64N(1<<21), 5), '0')
	j := &Job{indexes: make([]jobIndex, 1)}
	w := j.NewWorker(nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1_000_000 == 0 {
			w.indexes[0].arena.release()
		}
		if err := w.Append(0, kv, len(kv)-1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSort(b *testing.B) {
	const n = 1_000_000
	for _, name := range []string{"random integers with handles", "ascending", "few distinct values", "long common part in groups"} {
		b.Run(name, func(b *testing.B) {
			a := fillArena(b, n, keyShapes[name])
			var s sorter
			for b.Loop() {
				s.sort(a)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}
