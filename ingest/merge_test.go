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

	"github.com/stretchr/testify/require"
)

// pair is an entry of the naive model.
type pair struct{ key, value []byte }

func comparePairs(a, b pair) int { return bytes.Compare(a.key, b.key) }

// makeChunk sorts pairs into a chunk.
func makeChunk(t testing.TB, pairs []pair) *chunk {
	var a arena
	for _, p := range pairs {
		require.NoError(t, a.append(p.key, p.value))
	}
	var s sorter
	return &chunk{order: s.sort(&a), arena: a}
}

// makeRun writes sorted pairs to a run.
func makeRun(t testing.TB, pairs []pair) *run {
	sorted := slices.Clone(pairs)
	slices.SortStableFunc(sorted, comparePairs)
	w, err := newRunWriter(filepath.Join(t.TempDir(), "run"), createRun)
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
				var chunks []*chunk
				var runs []*run
				b := newBounds()
				for in := range inputs {
					var pairs []pair
					for i := range 1 + r.IntN(600) {
						// The value's length varies, so that lengths of every kind are met.
						value := bytes.Repeat([]byte{byte(in)}, 1+r.IntN(200))
						pairs = append(pairs, pair{shape(r, i), value})
					}
					all = append(all, pairs...)
					if r.IntN(2) == 0 {
						c := makeChunk(t, pairs)
						chunks = append(chunks, c)
						b.addChunk(c)
					} else {
						f := makeRun(t, pairs)
						runs = append(runs, f)
						b.addRun(f)
					}
				}
				slices.SortStableFunc(all, comparePairs)

				cuts := randomCuts(r, all)
				start := []byte(nil)
				var got []pair
				for i := range len(cuts) + 1 {
					kr := keyRange{start: start}
					if i < len(cuts) {
						kr.end = cuts[i]
						start = cuts[i]
					}
					var cursors []cursor
					for _, c := range chunks {
						cursors = append(cursors, c.cursor(kr))
					}
					for _, f := range runs {
						cursors = append(cursors, f.cursor(kr))
					}
					m, err := newMerger(cursors, nil, b.common(), false)
					require.NoError(t, err)
					got = append(got, drain(t, m, []byte("t1_i1"))...)
					require.NoError(t, m.close())
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

func randomCuts(r *rand.Rand, sorted []pair) [][]byte {
	var cuts [][]byte
	for range r.IntN(5) {
		cuts = append(cuts, sorted[r.IntN(len(sorted))].key)
	}
	slices.SortFunc(cuts, bytes.Compare)
	cuts = slices.CompactFunc(cuts, bytes.Equal)
	return slices.DeleteFunc(cuts, func(k []byte) bool { return len(k) == 0 })
}

func TestMergeFindsDuplicates(t *testing.T) {
	one := []pair{{[]byte("a"), []byte("1")}, {[]byte("b"), []byte("2")}}
	two := []pair{{[]byte("b"), []byte("3")}, {[]byte("c"), []byte("4")}}
	same := []pair{{[]byte("b"), []byte("2")}}

	merge := func(stored cursor, inputs ...[]pair) ([]pair, []*DuplicateGroup, error) {
		var cursors []cursor
		for _, in := range inputs {
			cursors = append(cursors, makeChunk(t, in).cursor(keyRange{}))
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

	_, groups, err = merge(makeChunk(t, two).cursor(keyRange{}), one)
	require.NoError(t, err)
	require.Equal(t, []*DuplicateGroup{group("b", 2, "2", "3")}, groups)

	// What the store has already may come again, and is one row then.
	_, groups, err = merge(makeChunk(t, same).cursor(keyRange{}), one, two, []pair{{[]byte("b"), []byte("0")}, {[]byte("c"), []byte("5")}})
	require.NoError(t, err)
	require.Equal(t, []*DuplicateGroup{group("b", 3, "0", "2", "3"), group("c", 2, "4", "5")}, groups)

	// What the store has already is not written again, unless it comes anew.
	got, _, err := merge(makeChunk(t, []pair{{[]byte("A"), []byte("0")}, {[]byte("b"), []byte("2")}}).cursor(keyRange{}), one)
	require.NoError(t, err)
	require.Equal(t, one, got)
}

func TestAnEntryAddedTwiceIsAnError(t *testing.T) {
	one := []pair{{[]byte("b"), []byte("2")}}
	m, err := newMerger([]cursor{makeChunk(t, one).cursor(keyRange{}), makeChunk(t, one).cursor(keyRange{})}, nil, 0, true)
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
		_, err = r.file.(*os.File).WriteAt(b, at)
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
	require.NoError(t, r.file.(*os.File).Truncate(runHeaderBytes))
	var batch records
	require.Error(t, r.cursor(keyRange{}).next(&batch))
}

// FuzzDecodeRunBlock: whatever lies in a block, decoding ends with an error or
// with records that lie inside the block's data.
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

func TestCutSamples(t *testing.T) {
	var samples []sample
	for i := range 100 {
		samples = append(samples, sample{key: binary.BigEndian.AppendUint32(nil, uint32(i)), bytes: 10})
	}
	cuts := cutSamples(samples, 4)
	require.Len(t, cuts, 3)
	for i, c := range cuts {
		require.InDelta(t, 25*(i+1), int(binary.BigEndian.Uint32(c)), 1)
	}

	for i := range samples {
		samples[i].key = []byte("same")
	}
	require.Empty(t, cutSamples(samples, 4), "there is nowhere to cut")
	require.Empty(t, cutSamples(samples[:1], 4))
}

func BenchmarkMerge(b *testing.B) {
	for _, k := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("%d-way", k), func(b *testing.B) {
			const n = 1_000_000
			bd := newBounds()
			var chunks []*chunk
			for range k {
				a := fillArena(b, n/k, keyShapes["random integers with handles"])
				var s sorter
				c := &chunk{order: s.sort(a), arena: *a}
				chunks = append(chunks, c)
				bd.addChunk(c)
			}
			var batch records
			for b.Loop() {
				var cursors []cursor
				for _, c := range chunks {
					cursors = append(cursors, c.cursor(keyRange{}))
				}
				m, err := newMerger(cursors, nil, bd.common(), false)
				require.NoError(b, err)
				for {
					require.NoError(b, m.next(context.Background(), []byte("tttttttt_iiiiiiii__"), &batch))
					if batch.len() == 0 {
						break
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}

func BenchmarkRun(b *testing.B) {
	const n = 1_000_000
	a := fillArena(b, n, keyShapes["random integers with handles"])
	var s sorter
	c := &chunk{order: s.sort(a), arena: *a}
	var r *run
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			w, err := newRunWriter(filepath.Join(b.TempDir(), "run"), createRun)
			require.NoError(b, err)
			require.NoError(b, mergeTo(context.Background(), []*chunk{c}, w))
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
