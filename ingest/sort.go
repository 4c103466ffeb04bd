package ingest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// entry is the sortable form of an arena's entry: eight bytes of the key, from
// behind what all keys have in common, and the entry's position.
type entry struct {
	prefix uint64
	pos    uint32
}

const (
	entrySize = 16
	// orderBytesPerEntry is the memory that an entry's place in the order takes.
	orderBytesPerEntry = 4
	// radixMin is the number of entries from which radix sort wins.
	radixMin = 256
)

// sorter sorts arenas. It keeps its buffers from one sort to the next.
type sorter struct {
	entries []entry
	scratch []entry
}

// size is the memory of the buffers, in bytes.
func (s *sorter) size() int64 { return int64(cap(s.entries)+cap(s.scratch)) * entrySize }

// sort returns the positions of the arena's entries in key order. Entries with
// equal keys keep the order in which they were appended.
//
// The keys of an index have much in common: the flag bytes of their columns,
// the leading zeros of integers, the beginning of strings. So the sort looks at
// all keys once to find the common part, which costs little because the arena
// is read sequentially, sorts by the eight bytes behind it, and compares whole
// keys only where those are equal. Input that is sorted already, as the index
// of a column that grows with the primary key, is found out on the way.
func (s *sorter) sort(a *arena) []uint32 {
	if a.count == 0 {
		return nil
	}
	common, sorted := a.survey()
	order := make([]uint32, 0, a.count)
	if sorted {
		a.forEach(func(pos uint32, _ []byte) { order = append(order, pos) })
		return order
	}
	entries, tailsSorted := s.load(a, common)
	if tailsSorted && len(entries) >= radixMin {
		s.radix(entries)
	} else {
		s.sortBy(a, entries, common)
	}
	for _, e := range entries {
		order = append(order, e.pos)
	}
	return order
}

// load returns the sortable form of all entries, and whether the keys' tails,
// what follows the eight bytes in the prefix field, are in ascending order
// already. A stable sort by the prefix is all there is to do then: such is an
// index whose eight bytes hold the column, as rows come in handle order.
func (s *sorter) load(a *arena, common int) (entries []entry, tailsSorted bool) {
	if cap(s.entries) < a.count {
		s.entries = make([]entry, a.count)
	}
	entries = s.entries[:0]
	var prev []byte
	tailsSorted = true
	a.forEach(func(pos uint32, key []byte) {
		entries = append(entries, entry{prefix: loadPrefix(key, common), pos: pos})
		if tailsSorted {
			if len(key) < common+8 {
				tailsSorted = false // padding may hide a difference
				return
			}
			tail := key[common+8:]
			tailsSorted = bytes.Compare(prev, tail) <= 0
			prev = tail
		}
	})
	return entries, tailsSorted
}

// survey returns the length of the longest common prefix of all keys, and
// whether they are in ascending order.
func (a *arena) survey() (common int, sorted bool) {
	var first, prev []byte
	sorted = true
	a.forEach(func(_ uint32, key []byte) {
		if first == nil {
			first, prev, common = key, key, len(key)
			return
		}
		common = commonPrefix(first[:common], key)
		if sorted {
			sorted = bytes.Compare(prev, key) <= 0
			prev = key
		}
	})
	return common, sorted
}

// forEach visits the entries in the order in which they were appended.
func (a *arena) forEach(fn func(pos uint32, key []byte)) {
	for i, b := range a.blocks {
		base := uint32(i) << blockShift
		for off, end := uint32(0), a.end(i); off < end; {
			klen, vlen, start := header(b, off)
			fn(base|off, b[start:start+klen:start+klen])
			off = start + klen + vlen
		}
	}
}

// sortBy sorts entries whose keys agree on the first depth bytes and whose
// prefix field holds the eight bytes after those.
func (s *sorter) sortBy(a *arena, entries []entry, depth int) {
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
			s.sortTie(a, entries[i:j], depth)
		}
		i = j
	}
}

// sortTie sorts entries with equal prefix fields at depth.
func (s *sorter) sortTie(a *arena, group []entry, depth int) {
	// The sort is stable, and rows of equal columns come in handle order, which
	// is their order in the index: mostly there is nothing to do.
	first := a.key(group[0].pos)
	prev, common, sorted := first, len(first), true
	for _, e := range group[1:] {
		key := a.key(e.pos)
		common = commonPrefix(first[:common], key)
		sorted = sorted && bytes.Compare(prev, key) <= 0
		prev = key
	}
	if sorted {
		return
	}
	if len(group) < radixMin {
		slices.SortStableFunc(group, func(x, y entry) int {
			return bytes.Compare(a.key(x.pos), a.key(y.pos))
		})
		return
	}
	// A key that ends within the eight bytes is padded with zeros, so keys with
	// equal prefix fields may differ before depth+8: take what they share.
	for i := range group {
		group[i].prefix = loadPrefix(a.key(group[i].pos), common)
	}
	if uniform(group) {
		// Zero padding hides the difference: the keys differ in length only.
		slices.SortStableFunc(group, func(x, y entry) int {
			return bytes.Compare(a.key(x.pos), a.key(y.pos))
		})
		return
	}
	s.sortBy(a, group, common)
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
