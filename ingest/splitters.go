package ingest

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// splitters cut the key space of an index into partitions: the i-th key is the
// least of partition i+1. A nil *splitters is one partition.
//
// Entries are put into their partition as they come. A partition is small
// enough to be sorted in the processor's caches, by the one that needs its entries,
// and partitions follow each other in key order: entries of many workers need
// no merge, and are gathered from memory that is near.
//
// Finding the partition of a key is the price, paid for each entry. A table over
// the eight bytes behind what all splitters have in common gives it away in one
// step where keys are spread evenly, and leaves few splitters to compare with
// where they are not.
type splitters struct {
	keys   [][]byte
	common []byte // first bytes of all keys, of which begin is the first eight
	begin  uint64
	heads  []uint64 // the eight bytes behind common of each key

	// cells[c] is how many heads lie before the c-th cell: the values from
	// heads[0] + c<<shift on.
	cells [splitterCells + 1]uint16
	shift uint
}

const splitterCells = 1 << 10

// newSplitters cuts the key space into at most n partitions of about equal
// size, by keys of which each stands for as many as any other. It keeps none of
// them.
func newSplitters(samples [][]byte, n int) *splitters {
	sorted := slices.SortedFunc(slices.Values(samples), bytes.Compare)
	s := new(splitters)
	for i := 1; i < n && len(sorted) > 0; i++ {
		key := sorted[i*len(sorted)/n]
		if bytes.Equal(key, sorted[0]) || len(s.keys) > 0 && bytes.Equal(key, s.keys[len(s.keys)-1]) {
			continue
		}
		s.keys = append(s.keys, bytes.Clone(key))
	}
	if len(s.keys) == 0 {
		return nil
	}
	first, last := s.keys[0], s.keys[len(s.keys)-1]
	s.common = first[:commonPrefix(first, last)]
	s.begin = loadPrefix(s.common, 0)
	for _, k := range s.keys {
		s.heads = append(s.heads, loadPrefix(k, len(s.common)))
	}
	s.fillCells()
	return s
}

func (s *splitters) fillCells() {
	least, greatest := s.heads[0], s.heads[len(s.heads)-1]
	for (greatest-least)>>s.shift >= splitterCells {
		s.shift++
	}
	before := 0
	for c := range s.cells {
		for before < len(s.heads) && (s.heads[before]-least)>>s.shift < uint64(c) {
			before++
		}
		s.cells[c] = uint16(before)
	}
}

// count returns the number of partitions.
func (s *splitters) count() int {
	if s == nil {
		return 1
	}
	return len(s.keys) + 1
}

// hasCommon reports whether key begins as all splitters do. Comparing eight bytes
// as one number is several times faster than comparing strings, of which the
// bytes were written a moment ago.
func (s *splitters) hasCommon(key []byte) bool {
	n := len(s.common)
	if len(key) < n {
		return false
	}
	if len(key) < 8 {
		return string(key[:n]) == string(s.common)
	}
	different := (binary.BigEndian.Uint64(key) ^ s.begin) >> (64 - 8*min(n, 8))
	return different == 0 && (n <= 8 || string(key[8:n]) == string(s.common[8:]))
}

// find returns the partition of a key.
func (s *splitters) find(key []byte) int {
	if s == nil {
		return 0
	}
	if !s.hasCommon(key) {
		if bytes.Compare(key, s.common) < 0 {
			return 0
		}
		return len(s.keys)
	}
	head := loadPrefix(key, len(s.common))
	if head < s.heads[0] {
		return 0
	}
	cell := (head - s.heads[0]) >> s.shift
	if cell >= splitterCells {
		return len(s.keys)
	}
	i, end := int(s.cells[cell]), int(s.cells[cell+1])
	for i < end {
		mid := (i + end) / 2
		if s.heads[mid] < head || s.heads[mid] == head && bytes.Compare(s.keys[mid], key) <= 0 {
			i = mid + 1
		} else {
			end = mid
		}
	}
	return i
}

// keyRange returns the keys of the partitions from first to before end.
func (s *splitters) keyRange(first, end int) keyRange {
	var r keyRange
	if first > 0 {
		r.start = s.keys[first-1]
	}
	if end < s.count() {
		r.end = s.keys[end-1]
	}
	return r
}

// commonPrefix returns how many first bytes all keys of a partition share at least, or
// unknown.
func (s *splitters) commonPrefix(partition int) int {
	if r := s.keyRange(partition, partition+1); r.start != nil && r.end != nil {
		return commonPrefix(r.start, r.end)
	}
	return unknown
}
