package rows

import (
	"sync"
)

// maxBlock is how many IDs a reader takes at a time at most.
const maxBlock = 4096

// counter names one of the sequences of IDs of a table.
type counter int

const (
	rowIDs counter = iota
	autoIncrement
	autoRandom
	counters
)

// State is how far the IDs of a table have been used. The values of an unsigned AUTO_INCREMENT column
// above the largest int64 are negative, as TiDB's allocators keep them. AutoRandom counts without the
// shard bits.
type State struct {
	// RowID, AutoIncrement and AutoRandom are the largest IDs in rows that readers have returned, given
	// or generated; those before the first row are what the table has used before. A new ID is larger.
	RowID, AutoIncrement, AutoRandom int64
	// Next are the IDs from which new ones are handed out: RowID, AutoIncrement, AutoRandom.
	Next [3]int64
}

// IDs hands out row IDs, AUTO_INCREMENT and AUTO_RANDOM values to all readers of a source. Readers take
// them in blocks that grow with the number of their rows, so that IDs follow the number of rows.
type IDs struct {
	mu   sync.Mutex
	next [counters]int64
	used [counters]int64
}

// NewIDs returns IDs that go on behind a state. The first ones of a table with AUTO_INCREMENT = 100 go on
// behind State{AutoIncrement: 99}.
func NewIDs(s State) *IDs {
	ids := &IDs{used: [counters]int64{s.RowID, s.AutoIncrement, s.AutoRandom}, next: s.Next}
	for c := range ids.next {
		if uint64(ids.next[c]) <= uint64(ids.used[c]) {
			ids.next[c] = ids.used[c] + 1
		}
	}
	return ids
}

// State returns what a checkpoint keeps. The rows of a reader count as of its last Rest, end of file, or Close.
func (ids *IDs) State() State {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return State{RowID: ids.used[rowIDs], AutoIncrement: ids.used[autoIncrement], AutoRandom: ids.used[autoRandom], Next: ids.next}
}

// block are consecutive IDs that one reader has taken. The zero block is empty.
type block struct {
	next, end int64
	size      int64
	used      int64 // the largest in rows of the reader
}

// take returns a block of n IDs that are larger than those the reader has used.
func (ids *IDs) take(c counter, b block, n int64) (first, end int64) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	ids.note(c, b.used)
	first = ids.next[c]
	ids.next[c] += n
	return first, ids.next[c]
}

// note records that an ID is used. mu is held.
func (ids *IDs) note(c counter, used int64) {
	if uint64(used) > uint64(ids.used[c]) {
		ids.used[c] = used
	}
	if uint64(ids.next[c]) <= uint64(used) && used != -1 {
		ids.next[c] = used + 1
	}
}

// settle records what readers have used, and takes back the rest of a block if no other was taken since.
func (ids *IDs) settle(blocks *[counters]block, giveBack bool) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	for c := range blocks {
		b := &blocks[c]
		if giveBack && b.next < b.end && ids.next[c] == b.end {
			ids.next[c] = b.next
			b.end = b.next
		}
		ids.note(counter(c), b.used)
	}
}

// new returns the next ID of a reader. limit is the largest that the column takes.
func (b *block) new(ids *IDs, c counter, limit uint64) int64 {
	if b.next >= b.end {
		b.size = min(max(2*b.size, 1), maxBlock, max(int64(limit/1024), 1))
		b.next, b.end = ids.take(c, *b, b.size)
	}
	id := b.next
	b.next++
	b.use(id)
	return id
}

// use records that a row has an ID: new ones are larger, as INSERT's are.
func (b *block) use(id int64) {
	if uint64(id) <= uint64(b.used) {
		return
	}
	b.used = id
	if b.next < b.end && b.next <= id {
		b.next = min(id, b.end-1) + 1
	}
}
