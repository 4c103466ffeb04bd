package ingest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// newRand returns a generator whose seed is printed.
func newRand(t testing.TB) *rand.Rand {
	return randtest.Rand(t)
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
				// One or more workers have filled the bucket one after the other.
				b := bucket{new(arena)}
				var want [][]byte
				for i := range n {
					key := shape(r, i)
					want = append(want, key)
					require.NoError(t, b[len(b)-1].append(binary.BigEndian.AppendUint32(bytes.Clone(key), uint32(i)), len(key)))
					if r.IntN(500) == 0 {
						b = append(b, new(arena))
					}
				}
				slices.SortStableFunc(want, bytes.Compare)

				for _, a := range b {
					a.seal()
				}
				p := part{b, unknown}
				if r.IntN(2) == 0 {
					p.common = b.commonPrefix() / 2
				}
				var s sorter
				order := s.sort(p)
				require.Len(t, order, n)
				lastValue := uint32(0)
				for i, e := range order {
					kv, klen := b[e.arena].record(e.pos)
					require.Equal(t, want[i], append([]byte{}, kv[:klen]...), "entry %d", i)
					value := binary.BigEndian.Uint32(kv[klen:])
					if i > 0 && bytes.Equal(want[i], want[i-1]) {
						require.Greater(t, value, lastValue, "equal keys have changed places")
					}
					lastValue = value
				}
				for _, a := range b {
					a.release()
				}
			})
		}
	}
}

func TestArenaRefusesEntriesThatAreTooLarge(t *testing.T) {
	var a arena
	sizes := []int{MaxEntrySize, 1, blockSize, blockSize - 1, 0, 2 * blockSize}
	for _, n := range sizes {
		require.NoError(t, a.append(make([]byte, n), n/2))
	}
	require.ErrorContains(t, a.append(make([]byte, MaxRecordSize+1), 1), "larger than")
	a.seal()
	i := 0
	for e, key := range (bucket{&a}).all() {
		kv, klen := a.record(e.pos)
		require.Len(t, kv, sizes[i])
		require.EqualValues(t, sizes[i]/2, klen)
		require.Len(t, key, sizes[i]/2)
		i++
	}
	require.Equal(t, len(sizes), i)
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

func BenchmarkAppend(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	shape := keyShapes["random integers with handles"]
	var entries [4096][]byte
	var samples [][]byte
	for i := range entries {
		entries[i] = append(shape(r, i), '0')
		samples = append(samples, entries[i][:len(entries[i])-1])
	}
	for _, partitions := range []int{1, 128} {
		b.Run(fmt.Sprintf("%d partitions", partitions), func(b *testing.B) {
			j := &Job{indexes: []jobIndex{{splitters: newSplitters(samples, partitions)}}}
			w := j.NewWorker(nil)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%1_000_000 == 0 {
					for p := range w.indexes[0].partitions {
						w.indexes[0].partitions[p].release()
					}
				}
				kv := entries[i%len(entries)]
				if err := w.Append(0, kv, len(kv)-1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSort(b *testing.B) {
	const n = 1_000_000
	for _, name := range []string{"random integers with handles", "ascending", "few distinct values", "long common part in groups"} {
		b.Run(name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			a := new(arena)
			for i := range n {
				kv := append(keyShapes[name](r, i), '0')
				require.NoError(b, a.append(kv, len(kv)-1))
			}
			a.seal()
			var s sorter
			for b.Loop() {
				s.sort(part{bucket{a}, unknown})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}
