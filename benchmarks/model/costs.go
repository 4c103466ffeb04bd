package model

// Cost is what something costs a processor of the quiet machine, in nanoseconds unless its unit says otherwise.
type Cost struct {
	Name  string
	Value float64
	Unit  string
	// From is what it was found from.
	From string
}

const (
	nano = 1e-9
	// busy is the part of their time that all cores of a machine work while a build does.
	busy = 0.92
	// basePair is the pair of an index on one INT with an integer handle, for which costs of an entry hold: a key
	// of 9 + 9 bytes and a value of one. prefixBytes is t{tableID}_i{indexID}.
	basePair, prefixBytes = 19, 19
)

// The costs. They are of processors, of this project's code and of TiKV's.
var (
	pebbleRow    = Cost{"Pebble: scan a row", 60, "row", "profile of d5c7824 in proportion, 0.42 s for 2 million rows"}
	pebbleCount  = Cost{"Pebble: count a row by its key", 43, "row", "builds before and after 1003011"}
	pebbleCold   = Cost{"Pebble: a byte of rows that the block cache lacks", 1.1, "byte", "first and second builds of one process"}
	pebbleVerify = Cost{"Pebble: read an entry back", 63, "entry", "profile of d5c7824 in proportion"}
	entryWork    = Cost{"encode, sort, write an entry to a file", 201, "entry", "0.42 s for 2 million rows"}
	stringPart   = Cost{"encode and read a string of a key", 128, "entry", "cases composite and char beside int"}
	pairByte     = Cost{"a byte of an entry beyond 19", 3.5, "byte", "cases composite and char beside int"}
	spillEntry   = Cost{"write an entry to a run, read and merge it", 60, "entry", "100 million rows beside 2 million"}
	pageRow      = Cost{"node: decode a row of a page", 110, "row", "processor time of the node, real TiKV"}
	fileEntry    = Cost{"node: encode, sort, write, read and send an entry", 290, "entry", "processor time of the node, real TiKV"}

	tikvRow     = Cost{"TiKV: scan a row", 606, "row", "processor time of TiKV, 0.9 s"}
	tikvCount   = Cost{"TiKV: count a row", 450, "row", "processor time of TiKV, 1.4 s with the sum"}
	tikvSum     = Cost{"TiKV: sum up an entry", 490, "entry", "the same"}
	tikvWrite   = Cost{"TiKV: write an entry to a file and take it in", 470, "entry", "processor time of TiKV, 0.7 s"}
	tikvByte    = Cost{"TiKV: a byte of an entry beyond 19, scanned, summed up, written", 20, "byte", "CHAR(120) by three nodes beside INT"}
	tikvRewrite = Cost{"TiKV: a byte that is compacted", 9, "byte", "processor time of RocksDB, 0.5 s"}

	standInRow  = Cost{"stand-in: all of a row and its entry", 410, "row", "200,000 and 1,000,000 rows"}
	standInByte = Cost{"stand-in: a byte of long values", 6, "byte", "VARCHAR(8000), one node and three"}

	embeddedJob = Cost{"a job, embedded", 20e6, "job", "a table of one row"}
	clusterJob  = Cost{"a job on a cluster", 100e6, "job", "200,000 and 1,000,000 rows"}
)

// CostList returns the costs, which are the model's free constants.
func CostList() []Cost {
	return []Cost{
		pebbleRow, pebbleCount, pebbleCold, pebbleVerify, entryWork, stringPart, pairByte, spillEntry, pageRow, fileEntry,
		tikvRow, tikvCount, tikvSum, tikvWrite, tikvByte, tikvRewrite, standInRow, standInByte, embeddedJob, clusterJob,
	}
}

// Answers that a build waits for one after the other, beside pages (docs/decisions, how nodes share a build).
const (
	answersAlone  = 13 // six until S, the sample, the import, count and sum, the spot check, publication and history
	answersShared = 7  // more: cutting, noticing, claiming, the look at the results
)

// Assumption is a figure that was not measured here.
type Assumption struct {
	Name  string
	Value float64
	Unit  string
	From  string
}

// The assumptions.
var (
	importAnswers = Assumption{"answers one after the other for one import into a region", 4, "answers",
		"kv/tikv/sstimport: look-up of the region, write, followers' load, ingest"}
	importFixed = Assumption{"a store's time for them: two synced files and a Raft command", 0.02, "s", "estimate; at most 0.03 s by six nodes beside three"}
	storeIngest = Assumption{"files that one store takes in", 100, "files/s", "estimate: each syncs RocksDB's manifest and delays commits"}
	importFiles = Assumption{"files at which TiKV becomes slow to take in more", 300_000, "files", "pingcap/tidb#59962"}
	mergeFactor = Assumption{"bytes that compaction writes for a byte and each tenfold of imports that overlap", 3, "bytes",
		"three and six nodes; a level of RocksDB is ten times the one above"}
	compactRate = Assumption{"compaction of a store, of its bandwidth for writing", 0.3, "share", "estimate"}
	debtLimit   = Assumption{"compaction debt at which a store slows writes", 192 * gib, "bytes", "TiKV: soft-pending-compaction-bytes-limit"}
	pdRequests  = Assumption{"look-ups of regions that PD answers", 10_000, "requests/s", "estimate"}
	txnBytes    = Assumption{"largest transaction", 100 * mib, "bytes", "TiDB: txn-total-size-limit"}
	objectRate  = Assumption{"bytes that a node reads and writes in object storage", 400 * mib, "bytes/s", "pingcap/tidb#70756: 411 MiB/s merged with seven processors"}
	objectFile  = Assumption{"bytes of a sorted file in object storage", 256 * mib, "bytes", "TiDB: DefaultMemSizeLimit"}
	objectMerge = Assumption{"files that overlap before they are merged once more", 4000, "files", "TiDB: maxMergeSortOverlapThreshold"}
	objectPart  = Assumption{"bytes of a request to object storage", 8 * mib, "bytes", "TiDB: ConcurrentReaderBufferSizePerConc"}
	runShare    = Assumption{"bytes of a pair that a run keeps", 0.8, "share", "integers; strings that are alike keep less"}
	fileShare   = Assumption{"bytes of a pair with its prefix that a final file keeps", 0.28, "share", "10.5 of 38 bytes (benchmarks/results/scale.json)"}
	rangeBytes  = Assumption{"bytes of a range in the row of a subtask", 100, "bytes", "two keys of 19 bytes in base64, and a weight"}
	regionMeta  = Assumption{"bytes of a region in a node's cache", 500, "bytes", "estimate"}
)

// Assumptions returns the figures that were not measured here.
func Assumptions() []Assumption {
	return []Assumption{
		importAnswers, importFixed, storeIngest, importFiles, mergeFactor, compactRate, debtLimit, pdRequests, txnBytes,
		objectRate, objectFile, objectMerge, objectPart, runShare, fileShare, rangeBytes, regionMeta,
	}
}

// entryCost is what an entry costs a node's processor: base, and what its strings and its size add.
func entryCost(base Cost, x Index) float64 {
	return base.Value + stringPart.Value*x.Strings + pairByte.Value*max(0, x.Pair-basePair)
}

// weight is what an entry counts in the size of a region.
func weight(x Index) float64 { return max(x.Pair+prefixBytes, leastWeight.Value) }
