package model

// Quote is a limit of the code.
type Quote struct {
	Name  string
	Value float64
	Unit  string
	// File is where it stands, from the root of the project; At matches it there, with its expression as the only group.
	File, At string
}

// Limits of the code. A test compares each with its file.
var (
	maxSubtasks = Quote{"subtasks of a build", 256, "", "ddl/dist/subtask.go", `maxSubtasks = (.+)`}
	// largeSubtasks is in subtasks of the least size.
	largeSubtasks   = Quote{"subtasks for which a lone node divides", 256, "", "ddl/dist/subtask.go", `largeSubtasks = (.+)`}
	subtasksPerNode = Quote{"subtasks of a node", 4, "", "ddl/dist/subtask.go", `subtasksPerNode = (.+)`}
	subtaskRanges   = Quote{"ranges of a subtask", 1000, "", "backfill/execution/subtask.go", `MaxSubtaskRanges = (.+)`}
	storeRequests   = Quote{"counts and sums under way", 16, "", "backfill/execution/storesums.go", `StoreRequests = (.+)`}
	samplePlaces    = Quote{"places that are sampled", 32, "", "backfill/sample.go", `samplePlaces = (.+)`}

	reorgWorkers      = Quote{"workers of a node", 4, "", "config/sysvar.go", `Name: ReorgWorkerCount, .*Default: "(\d+)"`}
	diskQuota         = Quote{"disk quota of a node", 100 * gib, "bytes", "config/sysvar.go", `Name: DiskQuota, .*Default: strconv\.Itoa\((.+?)\)`}
	partSize          = Quote{"least size of a subtask", 64 * mib, "bytes", "config/sysvar.go", `Name: PartSize, .*Default: strconv\.Itoa\((.+?)\)`}
	checkpointMinutes = Quote{"scanning before a flush", 10, "minutes", "config/sysvar.go", `Name: CheckpointInterval, .*Default: "(\d+)m0s"`}

	maxRuns         = Quote{"runs of an index before a flush", 128, "", "ingest/job.go", `o\.MaxRuns = (.+)`}
	maxRunFiles     = Quote{"runs of a node", 1024, "", "ingest/resources.go", `maxRunFiles = (.+)`}
	runsPercent     = Quote{"part of the quota for runs", 50, "%", "ingest/resources.go", `\n\trunsPercent\s+= (.+)`}
	filesPercent    = Quote{"part of the quota for files", 45, "%", "ingest/resources.go", `\n\tfilesPercent\s+= (.+)`}
	arenasPercent   = Quote{"part of the sort memory for entries", 70, "%", "ingest/resources.go", `arenasPercent = (.+)`}
	maxPartitions   = Quote{"partitions of an index", 128, "", "ingest/job.go", `maxPartitions = (.+)`}
	minPartitions   = Quote{"least partitions of an index", 16, "", "ingest/job.go", `minPartitions = (.+)`}
	partitionBlocks = Quote{"blocks of a partition", 4, "", "ingest/job.go", `blocksPerPartition = (.+)`}
	blockShift      = Quote{"logarithm of a block's size", 14, "", "ingest/blockmemory.go", `blockShift = (.+)`}
	newcomers       = Quote{"part of that for jobs without files", 25, "%", "ingest/resources.go", `newcomersPercent = (.+)`}
	sortEntry       = Quote{"size of an entry that is sorted, twice", 16, "bytes", "ingest/sort.go", `\tentrySize = (.+)`}
	taskBytes       = Quote{"size of a range that a worker scans", 32 * mib, "bytes", "backfill/execution/options.go", `o\.TaskBytes = (.+)`}
	importBatch     = Quote{"files that are imported together", 512 * mib, "bytes", "lightning/options.go", `defaultImportBatchBytes = (.+)`}

	maxSubranges  = Quote{"requests of a worker under way", 4, "", "kv/tikv/readahead.go", `maxSubranges = (.+)`}
	subrangeFill  = Quote{"how full pages are", 0.9, "", "kv/tikv/readahead.go", `subrangeFill = (.+)`}
	pageBytes     = Quote{"size of a page", 4 * mib, "bytes", "kv/tikv/options.go", `defaultPageBytes = (.+)`}
	maxPageRows   = Quote{"rows of a page", 50_000, "", "kv/tikv/scan.go", `minPageRows, maxPageRows = .+, ([0-9_]+)`}
	splitBytes    = Quote{"size that a region is sent at a time", 96 * mib, "bytes", "kv/tikv/sstimport/options.go", `defaultSplitBytes\s+= (.+)`}
	storeStreams  = Quote{"files written to a store at a time, of a node", 4, "", "kv/tikv/sstimport/options.go", `defaultStoreStreams\s+= (.+)`}
	importRegions = Quote{"regions that a node imports into at a time", 16, "", "kv/tikv/sstimport/importer.go", `maxRegions = (.+)`}
	leastWeight   = Quote{"least size that a pair counts", 105, "bytes", "kv/tikv/sstimport/unit.go", `leastWeight = (.+)`}
)

// blockBytes is the size of a block of an arena, maxWorkerMemory that of all of a worker's.
var (
	blockBytes      = float64(int64(1) << int64(blockShift.Value))
	maxWorkerMemory = float64(int64(1)<<32) / 2
)

// Quoted returns the limits of the code that the model uses.
func Quoted() []Quote {
	return []Quote{
		maxSubtasks, largeSubtasks, subtasksPerNode, subtaskRanges, storeRequests, samplePlaces,
		reorgWorkers, diskQuota, partSize, checkpointMinutes,
		maxRuns, maxRunFiles, runsPercent, filesPercent, arenasPercent, maxPartitions, minPartitions, partitionBlocks, blockShift,
		newcomers, sortEntry, taskBytes, importBatch,
		maxSubranges, subrangeFill, pageBytes, maxPageRows, splitBytes, storeStreams, importRegions, leastWeight,
	}
}
