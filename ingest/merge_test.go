package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// pair is an entry of the naive model.
type pair struct{ key, value []byte }

func comparePairs(a, b pair) int { return bytes.Compare(a.key, b.key) }

// makeBuckets puts pairs into the buckets of partitions.
func makeBuckets(t testing.TB, s *splitters, pairs []pair) []bucket {
	buckets := make([]bucket, s.count())
	for _, p := range pairs {
		b := &buckets[s.find(p.key)]
		if len(*b) == 0 {
			*b = bucket{new(arena)}
		}
		require.NoError(t, (*b)[0].append(concat(p.key, p.value), len(p.key)))
	}
	for _, b := range buckets {
		for _, a := range b {
			a.seal()
		}
	}
	return buckets
}

// inMemory returns a cursor over pairs in one bucket.
func inMemory(t testing.TB, pairs []pair) cursor {
	return newBucketCursor([]part{{makeBuckets(t, nil, pairs)[0], unknown}}, nil)
}

// makeRun writes sorted pairs to a run.
func makeRun(t testing.TB, pairs []pair) *run {
	sorted := slices.Clone(pairs)
	slices.SortStableFunc(sorted, comparePairs)
	w, err := newRunWriter(vfs.Default, filepath.Join(t.TempDir(), "run"))
	require.NoError(t, err)
	for _, p := range sorted {
		require.NoError(t, w.add(p.key, p.value))
	}
	r, err := w.finish()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.remove()) })
	return r
}

// drain reads a merger to its end.
func drain(t testing.TB, m *merger, prefix []byte) []pair {
	var got []pair
	var batch records
	for {
		require.NoError(t, m.next(context.Background(), prefix, &batch))
		if batch.len() == 0 {
			return got
		}
		for i := range batch.len() {
			got = append(got, pair{bytes.Clone(batch.key(i)), bytes.Clone(batch.value(i))})
		}
	}
}

func TestMergeEqualsSortedInput(t *testing.T) {
	r := newRand(t)
	for name, shape := range keyShapes {
		for _, inputs := range inputCounts() {
			t.Run(fmt.Sprintf("%s/%d", name, inputs), func(t *testing.T) {
				var all []pair
				var samples [][]byte
				var byInput [][]pair
				for in := range inputs {
					var pairs []pair
					for i := range 1 + r.IntN(600) {
						// The value's length varies, so that lengths of every kind are met.
						value := bytes.Repeat([]byte{byte(in)}, 1+r.IntN(200))
						pairs = append(pairs, pair{shape(r, i), value})
						if r.IntN(10) == 0 {
							samples = append(samples, pairs[i].key)
						}
					}
					all = append(all, pairs...)
					byInput = append(byInput, pairs)
				}
				slices.SortStableFunc(all, comparePairs)

				idx := jobIndex{splitters: newSplitters(samples, 1+r.IntN(20))}
				idx.buckets = make([]bucket, idx.splitters.count())
				for _, pairs := range byInput {
					if r.IntN(2) == 0 {
						idx.runs = append(idx.runs, makeRun(t, pairs))
						continue
					}
					for p, b := range makeBuckets(t, idx.splitters, pairs) {
						idx.buckets[p] = append(idx.buckets[p], b...)
					}
				}
				j := &Job{indexes: []jobIndex{idx}}
				var got []pair
				first := 0
				for _, end := range cutPartitions(idx.partitionBytes(), 1+r.IntN(4)) {
					m, err := j.openPiece(piece{first: first, end: end}, nil, nil)
					require.NoError(t, err)
					got = append(got, drain(t, m, []byte("t1_i1"))...)
					require.NoError(t, m.close())
					first = end
				}

				require.Len(t, got, len(all))
				want := Totals{}
				for _, p := range all {
					want.AddEntry(concat(p.key, p.value), len(p.key))
				}
				have := Totals{}
				for i, p := range got {
					require.True(t, bytes.HasPrefix(p.key, []byte("t1_i1")))
					key := p.key[len("t1_i1"):]
					require.Equal(t, string(all[i].key), string(key), "entry %d", i)
					have.AddEntry(concat(key, p.value), len(key))
				}
				require.Equal(t, want, have)
			})
		}
	}
}

// inputCounts are numbers of inputs of a merge; fewer when tests are to be short.
func inputCounts() []int {
	if testing.Short() {
		return []int{1, 5}
	}
	return []int{1, 2, 3, 11}
}

func TestMergeFindsDuplicates(t *testing.T) {
	one := []pair{{[]byte("a"), []byte("1")}, {[]byte("b"), []byte("2")}}
	two := []pair{{[]byte("b"), []byte("3")}, {[]byte("c"), []byte("4")}}
	same := []pair{{[]byte("b"), []byte("2")}}

	merge := func(stored cursor, inputs ...[]pair) ([]pair, []*DuplicateGroup, error) {
		var cursors []cursor
		for _, in := range inputs {
			cursors = append(cursors, inMemory(t, in))
		}
		m, err := newMerger(cursors, stored, 0, true)
		require.NoError(t, err)
		defer m.close()
		var batch records
		if err := m.next(context.Background(), nil, &batch); err != nil {
			require.ErrorIs(t, err, errDuplicate)
			groups, more, err := m.scan(context.Background())
			require.False(t, more)
			return nil, groups, err
		}
		var got []pair
		for i := range batch.len() {
			got = append(got, pair{bytes.Clone(batch.key(i)), bytes.Clone(batch.value(i))})
		}
		return got, nil, nil
	}
	group := func(key string, rows int64, values ...string) *DuplicateGroup {
		g := &DuplicateGroup{Key: []byte(key), Rows: rows}
		for _, v := range values {
			g.Values = append(g.Values, []byte(v))
		}
		return g
	}

	_, groups, err := merge(nil, one, two)
	require.NoError(t, err)
	require.Equal(t, []*DuplicateGroup{group("b", 2, "2", "3")}, groups)

	_, _, err = merge(nil, one, two, same)
	require.ErrorContains(t, err, "added twice")

	_, groups, err = merge(inMemory(t, two), one)
	require.NoError(t, err)
	require.Equal(t, []*DuplicateGroup{group("b", 2, "2", "3")}, groups)

	// What the store has already may come again, and is one row then.
	_, groups, err = merge(inMemory(t, same), one, two, []pair{{[]byte("b"), []byte("0")}, {[]byte("c"), []byte("5")}})
	require.NoError(t, err)
	require.Equal(t, []*DuplicateGroup{group("b", 3, "0", "2", "3"), group("c", 2, "4", "5")}, groups)

	// What the store has already is not written again, unless it comes anew.
	got, _, err := merge(inMemory(t, []pair{{[]byte("A"), []byte("0")}, {[]byte("b"), []byte("2")}}), one)
	require.NoError(t, err)
	require.Equal(t, one, got)
}

func TestAnEntryAddedTwiceIsAnError(t *testing.T) {
	one := []pair{{[]byte("b"), []byte("2")}}
	m, err := newMerger([]cursor{inMemory(t, one), inMemory(t, one)}, nil, 0, true)
	require.NoError(t, err)
	require.ErrorContains(t, m.next(context.Background(), nil, new(records)), "added twice")
	require.NoError(t, m.close())
}

func TestCorruptRunIsAnError(t *testing.T) {
	var pairs []pair
	for i := range 10000 {
		pairs = append(pairs, pair{intKey(uint64(i), 0), []byte{'0'}})
	}
	for _, at := range []int64{2, 6, 500, 40000} {
		r := makeRun(t, pairs)
		b := make([]byte, 1)
		_, err := r.file.ReadAt(b, at)
		require.NoError(t, err)
		b[0] ^= 0x40
		_, err = r.file.WriteAt(b, at)
		require.NoError(t, err)

		cur := r.cursor(keyRange{})
		var batch records
		err = cur.next(&batch)
		for err == nil && batch.len() > 0 {
			err = cur.next(&batch)
		}
		require.ErrorIs(t, err, errCorruptRun, "byte %d", at)
	}
}

func TestTruncatedRunIsAnError(t *testing.T) {
	r := makeRun(t, []pair{{[]byte("k"), []byte("v")}})
	require.NoError(t, os.Truncate(r.path, runHeaderBytes))
	var batch records
	require.Error(t, r.cursor(keyRange{}).next(&batch))
}

// FuzzDecodeRunBlock: decoding any block fails, or returns records that lie
// inside the block's data.
func FuzzDecodeRunBlock(f *testing.F) {
	f.Add([]byte{0, 1, 1, 'k', 'v', 1, 1, 0, 'l'})
	f.Add([]byte{1})
	f.Fuzz(func(_ *testing.T, body []byte) {
		var out records
		if decodeRunBlock(body, &out) == nil {
			for i := range out.len() {
				_, _ = out.key(i), out.value(i)
			}
		}
	})
}

func TestRunFilesAreSmallerThanTheirBound(t *testing.T) {
	r := newRand(t)
	for name, shape := range keyShapes {
		var pairs []pair
		var raw int64
		for i := range 3000 {
			p := pair{shape(r, i), []byte{'0'}}
			pairs = append(pairs, p)
			raw += int64(len(p.key) + len(p.value))
		}
		f := makeRun(t, pairs)
		info, err := os.Stat(f.path)
		require.NoError(t, err)
		require.Equal(t, f.bytes, info.Size())
		require.LessOrEqual(t, f.bytes, runSizeBound(len(pairs), raw), name)
	}
}

func TestCutPartitions(t *testing.T) {
	sizes := slices.Repeat([]int64{10}, 100)
	require.Equal(t, []int{25, 50, 75, 100}, cutPartitions(sizes, 4))
	require.Equal(t, []int{100}, cutPartitions(sizes, 1))
	require.Equal(t, []int{1, 2, 3}, cutPartitions([]int64{5, 5, 5}, 9), "a partition is not divided")
	require.Equal(t, []int{2, 4}, cutPartitions([]int64{0, 1000, 0, 1}, 2))
	require.Equal(t, []int{1}, cutPartitions([]int64{7}, 4))
}

// buildBuckets puts n sysbench-like entries of the index on k into partitions,
// as several workers would.
func buildBuckets(b *testing.B, n, workers, partitions int) (*splitters, []bucket) {
	r := rand.New(rand.NewPCG(1, 2))
	shape := keyShapes["random integers with handles"]
	var samples [][]byte
	for i := range 1024 {
		samples = append(samples, shape(r, i))
	}
	s := newSplitters(samples, partitions)
	buckets := make([]bucket, s.count())
	for range workers {
		arenas := make([]arena, s.count())
		for i := range n / workers {
			kv := append(shape(r, i), '0')
			require.NoError(b, arenas[s.find(kv[:len(kv)-1])].append(kv, len(kv)-1))
		}
		for p := range arenas {
			arenas[p].seal()
			buckets[p] = append(buckets[p], &arenas[p])
		}
	}
	return s, buckets
}

func BenchmarkSortAndMerge(b *testing.B) {
	for _, partitions := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("%d partitions", partitions), func(b *testing.B) {
			const n = 2_000_000
			s, buckets := buildBuckets(b, n, 2, partitions)
			j := &Job{indexes: []jobIndex{{splitters: s, buckets: buckets}}}
			var batch records
			for b.Loop() {
				m, err := j.openPiece(piece{end: s.count()}, nil, nil)
				require.NoError(b, err)
				for {
					require.NoError(b, m.next(context.Background(), []byte("tttttttt_iiiiiiii__"), &batch))
					if batch.len() == 0 {
						break
					}
				}
				require.NoError(b, m.close())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}

func BenchmarkRun(b *testing.B) {
	const n = 1_000_000
	s, buckets := buildBuckets(b, n, 1, 128)
	idx := jobIndex{splitters: s, buckets: buckets}
	var r *run
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			w, err := newRunWriter(vfs.Default, filepath.Join(b.TempDir(), "run"))
			require.NoError(b, err)
			require.NoError(b, writeParts(context.Background(), idx.parts(piece{end: s.count()}), nil, w))
			r, err = w.finish()
			require.NoError(b, err)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		b.ReportMetric(float64(r.bytes)/n, "bytes/entry")
	})
	b.Run("read", func(b *testing.B) {
		var batch records
		for b.Loop() {
			cur := r.cursor(keyRange{})
			for {
				require.NoError(b, cur.next(&batch))
				if batch.len() == 0 {
					break
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
	})
}

// TestRunBlocksOfLikeKeys: keys that have almost all of their bytes in common make blocks
// that are not decoded to many times what a cursor may hold.
func TestRunBlocksOfLikeKeys(t *testing.T) {
	like := bytes.Repeat([]byte("x"), 3000)
	var pairs []pair
	raw := int64(0)
	for i := range 2000 {
		p := pair{key: binary.BigEndian.AppendUint32(slices.Clone(like), uint32(i)), value: []byte{}}
		pairs, raw = append(pairs, p), raw+int64(len(p.key))
	}
	r := makeRun(t, pairs)
	require.LessOrEqual(t, r.bytes, runSizeBound(len(pairs), raw))
	var out records
	c := r.cursor(keyRange{})
	for n := 0; n < len(pairs); n += out.len() {
		require.NoError(t, c.next(&out))
		require.NotZero(t, out.len())
		require.Less(t, len(out.data), maxRunBlockRaw+len(pairs[0].key))
	}
}

// TestRunIndexIsShort: of a run's index a few bytes of each block are in memory, however long
// the keys are, and any range is still found by it.
func TestRunIndexIsShort(t *testing.T) {
	r := newRand(t)
	var pairs []pair
	for range 3000 {
		key := make([]byte, 500)
		for i := range key {
			key[i] = byte(r.IntN(256))
		}
		pairs = append(pairs, pair{key, []byte{'0'}})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	run := makeRun(t, pairs)
	require.Greater(t, len(run.blocks), 20)
	require.Less(t, run.memory(), int64(3*500+32*len(run.blocks)))
}

// TestRunRanges: a cursor finds the keys of any range, wherever in a block it begins and ends.
func TestRunRanges(t *testing.T) {
	r := newRand(t)
	for name, shape := range keyShapes {
		var pairs []pair
		for i := range 3000 {
			pairs = append(pairs, pair{shape(r, i), []byte{'0'}})
		}
		slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
		run := makeRun(t, pairs)
		bound := func() []byte {
			switch r.IntN(4) {
			case 0:
				return nil
			case 1:
				return run.separator(r.IntN(len(run.blocks)))
			case 2:
				key := pairs[r.IntN(len(pairs))].key
				return key[:r.IntN(len(key)+1)]
			default:
				return pairs[r.IntN(len(pairs))].key
			}
		}
		for range 100 {
			kr := keyRange{bound(), bound()}
			var want, got int
			for _, p := range pairs {
				if bytes.Compare(p.key, kr.start) >= 0 && (kr.end == nil || bytes.Compare(p.key, kr.end) < 0) {
					want++
				}
			}
			c := run.cursor(kr)
			var batch records
			for {
				require.NoError(t, c.next(&batch))
				if batch.len() == 0 {
					break
				}
				got += batch.len()
			}
			require.Equal(t, want, got, "%s: from %x to %x", name, kr.start, kr.end)
		}
	}
}
