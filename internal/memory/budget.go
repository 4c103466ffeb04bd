package memory

const (
	// Least is the smallest limit that a server can work with, in bytes.
	Least = 256 << 20

	maxBlockCache = 8 << 30
	// maxMemTable is the size of a memtable where there is enough memory. Larger ones
	// would make flushes long, and recovery after a crash.
	maxMemTable = 64 << 20
	// MemTables is the greatest number of memtables before writers wait.
	MemTables = 4
)

// Budget is what the parts of the process may use, in bytes.
type Budget struct {
	// Limit is the whole of it.
	Limit int64
	// BlockCache is for uncompressed blocks of the store.
	BlockCache int64
	// MemTable is the size of each of the store's memtables, of which there are
	// at most MemTables.
	MemTable int64
	// Sorting is for the entries of index builds.
	Sorting int64
	// Heap is for everything that is on the Go heap: sessions, statements,
	// transactions, schema and statistics, what compactions have in hand.
	Heap int64
}

const (
	// serverPercent is the part of the heap in which statements may grow. The rest is
	// for garbage that has not been collected, and for what statements are not charged
	// with.
	serverPercent = 80
	// maxStatement is the largest quota of a statement, TiDB's own default.
	maxStatement = 1 << 30
)

// ServerLimit is for tidb_server_memory_limit, in bytes: above it the statement that has
// most is ended.
func (b Budget) ServerLimit() int64 { return b.Heap / 100 * serverPercent }

// StatementQuota is for tidb_mem_quota_query, in bytes: above it a statement spills, or
// is ended. No statement can have all, so that there is something to choose from when
// the server's limit is met.
func (b Budget) StatementQuota() int64 { return min(maxStatement, b.ServerLimit()/2) }

// Locks is what the locks of transactions in the embedded store may hold, in bytes: it is
// beside what statements are charged with.
func (b Budget) Locks() int64 { return b.Heap / 4 }

// Divide divides limit bytes; 0 is three quarters of the machine's memory. See the
// package's documentation for why each part is as large as it is.
func Divide(limit int64) Budget {
	if limit == 0 {
		limit = Machine() / 4 * 3
	}
	limit = max(limit, Least)
	b := Budget{
		Limit:      limit,
		BlockCache: min(limit/4, maxBlockCache),
		MemTable:   min(limit/16/MemTables, maxMemTable),
		Sorting:    limit / 8,
	}
	b.Heap = limit - b.BlockCache - MemTables*b.MemTable - b.Sorting
	return b
}
