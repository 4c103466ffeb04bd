package ingest

import (
	"bytes"
	"slices"
)

// piece is a key range of one index that is merged by one goroutine.
type piece struct {
	index int
	keys  keyRange
}

const (
	// minPieceBytes is the size below which an index is not cut: a file has a
	// fixed cost, and many small files make reading dear.
	minPieceBytes = 2 << 20
	// maxPieceBytes bounds what one goroutine merges before it looks whether there
	// are to be fewer of them.
	maxPieceBytes = 128 << 20
	// piecesPerMerger evens out pieces of different cost.
	piecesPerMerger = 2
	// samplesPerChunk is how many keys of each chunk stand for it when the key
	// space is cut.
	samplesPerChunk = 256
)

// sample is a key that stands for so many bytes up to the next one.
type sample struct {
	key   []byte
	bytes int64
}

// pieces cuts everything the job holds into ranges of about equal size. Unique
// indexes come first, so that little has been written for nothing when one has
// duplicates.
func (j *Job) pieces() []piece {
	var unique, others []piece
	for i := range j.indexes {
		if j.indexes[i].spec.Unique {
			unique = append(unique, j.indexPieces(i)...)
		} else {
			others = append(others, j.indexPieces(i)...)
		}
	}
	return append(unique, others...)
}

func (j *Job) indexPieces(i int) []piece {
	samples := j.indexes[i].samples()
	if len(samples) == 0 {
		return nil
	}
	var total int64
	for _, s := range samples {
		total += s.bytes
	}
	var pieces []piece
	start := []byte(nil)
	for _, cut := range cutSamples(samples, pieceCount(total, j.opts.Parallel())) {
		pieces = append(pieces, piece{index: i, keys: keyRange{start: start, end: cut}})
		start = cut
	}
	return append(pieces, piece{index: i, keys: keyRange{start: start}})
}

// pieceCount is the number of pieces that so many bytes are cut into.
func pieceCount(total int64, parallel int) int {
	n := min(total/minPieceBytes, int64(parallel*piecesPerMerger))
	return int(max(1, n, total/maxPieceBytes))
}

// rawBytes is the size of the keys and values that the job holds.
func (j *Job) rawBytes() (n int64) {
	for i := range j.indexes {
		idx := &j.indexes[i]
		for _, c := range idx.chunks {
			n += idx.spec.rawBytes(c.arena.bytes, c.arena.count)
		}
		for _, r := range idx.runs {
			n += idx.spec.rawBytes(r.raw, r.count)
		}
	}
	return n
}

// rawBytes is the size of so many entries, which is bytes without the prefix.
func (idx *Index) rawBytes(bytes int64, count int) int64 {
	return bytes + int64(count*len(idx.Prefix))
}

// samples returns keys that stand for all entries of the index.
func (idx *jobIndex) samples() []sample {
	var samples []sample
	for _, c := range idx.chunks {
		n := min(len(c.order), samplesPerChunk)
		each := idx.spec.rawBytes(c.arena.bytes, c.arena.count) / int64(n)
		for s := range n {
			samples = append(samples, sample{key: c.arena.key(c.order[s*len(c.order)/n]), bytes: each})
		}
	}
	for _, r := range idx.runs {
		each := idx.spec.rawBytes(r.raw, r.count) / int64(len(r.blocks))
		for b := range r.blocks {
			samples = append(samples, sample{key: r.firstKey(b), bytes: each})
		}
	}
	return samples
}

// cutSamples returns at most n-1 ascending keys that cut the samples into n
// parts of about equal size.
func cutSamples(samples []sample, n int) [][]byte {
	slices.SortFunc(samples, func(a, b sample) int { return bytes.Compare(a.key, b.key) })
	var total int64
	for _, s := range samples {
		total += s.bytes
	}
	var cuts [][]byte
	var sum int64
	last := samples[0].key
	for _, s := range samples {
		due := total / int64(n) * int64(len(cuts)+1)
		if len(cuts) < n-1 && sum >= due && !bytes.Equal(s.key, last) {
			last = bytes.Clone(s.key)
			cuts = append(cuts, last)
		}
		sum += s.bytes
	}
	return cuts
}

// bounds is the range that the keys of several sorted inputs lie in.
type bounds struct {
	least, greatest []byte
	any             bool
}

func newBounds() *bounds { return &bounds{} }

func (b *bounds) addChunk(c *chunk) {
	b.add(c.arena.key(c.order[0]), c.arena.key(c.order[len(c.order)-1]))
}

func (b *bounds) addRun(r *run) { b.add(r.firstKey(0), r.last) }

func (b *bounds) add(least, greatest []byte) {
	if !b.any || bytes.Compare(least, b.least) < 0 {
		b.least = least
	}
	if !b.any || bytes.Compare(greatest, b.greatest) > 0 {
		b.greatest = greatest
	}
	b.any = true
}

// common is how many leading bytes all keys within the bounds share: as many
// as the least and the greatest.
func (b *bounds) common() int { return commonPrefix(b.least, b.greatest) }

// clip returns the part of r that lies within the bounds.
func (b *bounds) clip(r keyRange) keyRange {
	if r.start == nil || bytes.Compare(r.start, b.least) < 0 {
		r.start = b.least
	}
	after := append(bytes.Clone(b.greatest), 0)
	if r.end == nil || bytes.Compare(r.end, after) > 0 {
		r.end = after
	}
	return r
}
