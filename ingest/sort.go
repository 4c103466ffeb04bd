package ingest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// entry is the sortable form of an entry in a bucket: eight bytes of the key,
// from behind what all keys have in common, and where the entry is.
type entry struct {
	prefix uint64
	arena  uint32
	pos    uint32
}

const (
	entrySize = 16
	// radixMin is the number of entries from which radix sort wins.
	radixMin = 256
)

// sorter sorts buckets. It keeps its buffers from one sort to the next.
type sorter struct {
	entries []entry
	scratch []entry
}

// sort returns the entries of a part in key order, valid until the next call.
// Entries with equal keys keep the order in which they were appended.
//
// The keys of an index have much in common: the flag bytes of their columns,
// the leading zeros of integers, the beginning of strings. If it is not known
// how much, the sort looks at all keys once to find out. It sorts by the eight
// bytes behind the common part, and compares whole keys only where those are
// equal. Input that is sorted already, as the index of a column that grows with
// the primary key, is found out on the way.
func (s *sorter) sort(p part) []entry {
	n := p.count()
	if n == 0 {
		return nil
	}
	if cap(s.entries) < n {
		s.entries = make([]entry, n)
	}
	if p.common == unknown {
		p.common = p.commonPrefix()
	}
	entries, sorted := s.load(p)
	if !sorted {
		s.sortBy(p.bucket, entries, p.common)
	}
	return entries
}

// load returns the sortable form of all entries, and whether they are sorted
// already.
func (s *sorter) load(p part) (entries []entry, sorted bool) {
	entries, sorted = s.entries[:0], true
	var prev []byte
	last := uint64(0)
	for e, key := range p.all() {
		e.prefix = loadPrefix(key, p.common)
		entries = append(entries, e)
		if sorted {
			sorted = last < e.prefix || last == e.prefix && bytes.Compare(prev, key) <= 0
			prev, last = key, e.prefix
		}
	}
	return entries, sorted
}

// commonPrefix returns the length of the longest common prefix of all keys.
func (b bucket) commonPrefix() (common int) {
	var first []byte
	for _, key := range b.all() {
		if first == nil {
			first, common = key, len(key)
		}
		common = commonPrefix(first[:common], key)
	}
	return common
}

// sortBy sorts entries whose keys agree on the first depth bytes and whose
// prefix field holds the eight bytes after those.
func (s *sorter) sortBy(b bucket, entries []entry, depth int) {
	if len(entries) >= radixMin {
		s.radix(entries)
	} else {
		slices.SortStableFunc(entries, func(x, y entry) int { return cmp.Compare(x.prefix, y.prefix) })
	}
	for i := 0; i < len(entries); {
		j := i + 1
		for j < len(entries) && entries[j].prefix == entries[i].prefix {
			j++
		}
		if j-i > 1 {
			s.sortTie(b, entries[i:j], depth)
		}
		i = j
	}
}

// sortTie sorts entries with equal prefix fields at depth.
func (s *sorter) sortTie(b bucket, group []entry, depth int) {
	// The sort is stable, and rows of equal columns come in handle order, which
	// is their order in the index: mostly there is nothing to do.
	first := b.key(group[0])
	prev, common, sorted := first, len(first), true
	for _, e := range group[1:] {
		key := b.key(e)
		common = commonPrefix(first[:common], key)
		sorted = sorted && bytes.Compare(prev, key) <= 0
		prev = key
	}
	if sorted {
		return
	}
	if len(group) < radixMin {
		slices.SortStableFunc(group, func(x, y entry) int {
			return bytes.Compare(b.key(x), b.key(y))
		})
		return
	}
	// A key that ends within the eight bytes is padded with zeros, so keys with
	// equal prefix fields may differ before depth+8: take what they share.
	for i := range group {
		group[i].prefix = loadPrefix(b.key(group[i]), common)
	}
	if uniform(group) {
		// Zero padding hides the difference: the keys differ in length only.
		slices.SortStableFunc(group, func(x, y entry) int {
			return bytes.Compare(b.key(x), b.key(y))
		})
		return
	}
	s.sortBy(b, group, common)
}

func uniform(group []entry) bool {
	for _, e := range group[1:] {
		if e.prefix != group[0].prefix {
			return false
		}
	}
	return true
}

// radix sorts entries by prefix, byte by byte from the lowest, leaving out
// bytes that are the same in all entries.
func (s *sorter) radix(entries []entry) {
	var counts [8][256]uint32
	for _, e := range entries {
		p := e.prefix
		counts[0][byte(p)]++
		counts[1][byte(p>>8)]++
		counts[2][byte(p>>16)]++
		counts[3][byte(p>>24)]++
		counts[4][byte(p>>32)]++
		counts[5][byte(p>>40)]++
		counts[6][byte(p>>48)]++
		counts[7][byte(p>>56)]++
	}
	if cap(s.scratch) < len(entries) {
		s.scratch = make([]entry, len(entries))
	}
	from, to := entries, s.scratch[:len(entries)]
	for digit := range counts {
		count := &counts[digit]
		shift := 8 * digit
		if count[byte(from[0].prefix>>shift)] == uint32(len(from)) {
			continue
		}
		offset := uint32(0)
		for i, n := range count {
			count[i] = offset
			offset += n
		}
		for _, e := range from {
			b := byte(e.prefix >> shift)
			to[count[b]] = e
			count[b]++
		}
		from, to = to, from
	}
	if &from[0] != &entries[0] {
		copy(entries, from)
	}
}

// loadPrefix returns the eight bytes of key from depth on as a number that
// compares like them, padded with zeros.
func loadPrefix(key []byte, depth int) uint64 {
	if len(key) >= depth+8 {
		return binary.BigEndian.Uint64(key[depth:])
	}
	var p uint64
	for i := depth; i < len(key); i++ {
		p |= uint64(key[i]) << (56 - 8*(i-depth))
	}
	return p
}

// commonPrefix returns how many leading bytes a and b share.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
