package memory

import (
	"os"
	"runtime/debug"
)

const (
	// Least is the smallest limit that a server can work with, in bytes.
	Least = 256 << 20

	maxBlockCache = 8 << 30
	// maxMemTable is the size of a memtable where there is enough memory. Larger ones
	// would make flushes long, and recovery after a crash.
	maxMemTable = 64 << 20
	// MemTables is how many memtables there are at the most before writers wait.
	MemTables = 4
)

// Budget is what the parts of the process may use, in bytes.
type Budget struct {
	// Limit is the whole of it.
	Limit int64
	// BlockCache is for uncompressed blocks of the store.
	BlockCache int64
	// MemTable is the size of each of the store's memtables, of which there are
	// MemTables at the most.
	MemTable int64
	// Sorting is for the entries of index builds.
	Sorting int64
	// Heap is for everything that is on the Go heap: sessions, statements,
	// transactions, what compactions have in hand.
	Heap int64
}

// Divide divides limit bytes; 0 is three quarters of the machine's memory.
func Divide(limit int64) Budget {
	if limit == 0 {
		limit = Machine() / 4 * 3
	}
	limit = max(limit, Least)
	b := Budget{
		Limit:      limit,
		BlockCache: min(limit/4, maxBlockCache),
		MemTable:   min(limit/8/MemTables, maxMemTable),
		Sorting:    limit / 4,
	}
	b.Heap = limit - b.BlockCache - MemTables*b.MemTable - b.Sorting
	return b
}

// LimitHeap lets Go collect garbage more often when the heap would exceed its
// part, unless the environment variable GOMEMLIMIT says otherwise. It is for the whole
// process.
func (b Budget) LimitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(b.Heap)
	}
}
