package ingest

import (
	"bytes"
	"sort"
)

// piece is a number of partitions of one index that is merged by one goroutine.
type piece struct {
	index int
	// first is the first partition, and end the one behind the last.
	first, end int
	bytes      int64 // of keys and values
}

const (
	// minPieceBytes is the size below which an index is not cut: a file has a
	// fixed cost, and many small files make reading dear.
	minPieceBytes = 2 << 20
	// maxPieceBytes bounds what one goroutine merges before it looks whether there
	// are to be fewer of them.
	maxPieceBytes = 128 << 20
	// piecesPerMerger evens out pieces of different cost.
	piecesPerMerger = 4
)

// pieces cuts everything the job holds into parts of about equal size. Unique
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
	sizes := j.indexes[i].partitionBytes()
	var total int64
	for _, n := range sizes {
		total += n
	}
	if total == 0 {
		return nil
	}
	var pieces []piece
	first := 0
	for _, end := range cutPartitions(sizes, pieceCount(total, j.opts.Parallel())) {
		p := piece{index: i, first: first, end: end}
		for _, n := range sizes[first:end] {
			p.bytes += n
		}
		pieces = append(pieces, p)
		first = end
	}
	return pieces
}

// pieceCount returns the number of pieces that so many bytes are cut into.
func pieceCount(total int64, parallel int) int {
	n := min(total/minPieceBytes, int64(parallel*piecesPerMerger))
	return int(max(1, n, total/maxPieceBytes))
}

// rawBytes returns the size of so many entries, which is bytes without the prefix.
func (idx *KeySpace) rawBytes(bytes int64, count int) int64 {
	return bytes + int64(count*len(idx.Prefix))
}

// partitionBytes returns the size of each partition, in memory and in runs.
func (idx *jobIndex) partitionBytes() []int64 {
	sizes := make([]int64, idx.splitters.count())
	for p, b := range idx.buckets {
		sizes[p] = idx.spec.rawBytes(b.bytes(), b.count())
	}
	for _, r := range idx.runs {
		each := idx.spec.rawBytes(r.raw, r.count) / int64(len(r.blocks))
		for b := range r.blocks {
			sizes[idx.splitters.find(r.separator(b))] += each
		}
	}
	return sizes
}

// cutPartitions divides partitions of the given sizes into at most n groups of
// about equal size, and returns the end of each.
func cutPartitions(sizes []int64, n int) (ends []int) {
	sums := make([]int64, len(sizes))
	var total int64
	for i, size := range sizes {
		total += size
		sums[i] = total
	}
	for i := 1; i < n; i++ {
		due := total / int64(n) * int64(i)
		end := sort.Search(len(sums), func(p int) bool { return sums[p] >= due }) + 1
		if end < len(sizes) && (len(ends) == 0 || end > ends[len(ends)-1]) {
			ends = append(ends, end)
		}
	}
	return append(ends, len(sizes))
}

// bounds is the range that the keys of several inputs lie in.
type bounds struct {
	least, greatest []byte
	any             bool
}

// addParts adds parts in key order.
func (b *bounds) addParts(parts []part) {
	for _, p := range []part{parts[0], parts[len(parts)-1]} {
		least, greatest := p.extremes()
		b.add(least, greatest)
	}
}

func (b *bounds) addRun(r *run) { b.add(r.separator(0), r.last) }

func (b *bounds) add(least, greatest []byte) {
	if !b.any || bytes.Compare(least, b.least) < 0 {
		b.least = least
	}
	if !b.any || bytes.Compare(greatest, b.greatest) > 0 {
		b.greatest = greatest
	}
	b.any = true
}

// common returns how many leading bytes all keys within the bounds share: as many
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
