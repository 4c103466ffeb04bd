package model

// Sizes in bytes.
const (
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// Index is one index of a build.
type Index struct {
	// Pair is the size of a key without the index prefix and its value, in bytes.
	Pair float64
	// Strings is the number of its key parts that are strings.
	Strings float64
	Unique  bool
}

// Build is what is to be built.
type Build struct {
	Rows float64
	// RowBytes is the stored size of a row, ScanBytes that of its columns as a scan hands them out, in bytes.
	RowBytes, ScanBytes float64
	Indexes             []Index
	// Ordered says that the entries lie as the rows do, so that imports of different rows do not overlap.
	Ordered bool
	// CompareAll says that all rows and entries are read once more at T: a unique index beside writes.
	CompareAll bool
	// Sampled says that a sample stands for the second reading of rows and entries.
	Sampled bool
}

// sum adds up what fn returns for each index.
func (b *Build) sum(fn func(Index) float64) (total float64) {
	for _, x := range b.Indexes {
		total += fn(x)
	}
	return total
}

// Store is the kind of the store.
type Store int

// The stores.
const (
	// TiKV is a cluster of TiKV and PD.
	TiKV Store = iota
	// StandIn is that of the tests, in memory and in one process with the nodes.
	StandIn
	// Embedded is Pebble in the server's process.
	Embedded
)

// Cluster is where it is built. Zero limits are the code's defaults.
type Cluster struct {
	Store Store
	// Slowness is how many times as long a processor takes as that of the quiet machine on which costs were measured.
	Slowness float64
	// Shared says that nodes and stores share NodeCores: all of them are on one machine.
	Shared bool

	// Nodes build, with NodeCores each; Workers is tidb_ddl_reorg_worker_cnt.
	Nodes, NodeCores, Workers float64
	// NodeMemory and DiskQuota (tidb_ddl_disk_quota) are in bytes, NodeDisk and NodeNetwork in bytes per second.
	NodeMemory, NodeDisk, NodeNetwork, DiskQuota float64
	// MemoryLimit is memory-limit in bytes; 0 is three quarters of NodeMemory. BlockCache is that of an embedded store,
	// 0 by MemoryLimit; Cold says that it has no rows yet.
	MemoryLimit, BlockCache float64
	Cold                    bool

	// Stores have StoreCores each, of which a build may take StoreShare. StoreRead and StoreWrite are bytes per second.
	Stores, StoreCores, StoreShare, StoreRead, StoreWrite float64
	// Replicas of each region; RegionBytes is the size at which TiKV splits regions.
	Replicas, RegionBytes float64
	// Latency is how late each answer comes, in seconds, beside the work for it.
	Latency float64

	// PageRows and Requests override the rows of a page and the requests of one worker that are under way.
	PageRows, Requests float64
	// Subtasks overrides how many a build is cut into.
	Subtasks float64
	// Alone says that one node builds without subtasks.
	Alone bool
	// MergeFactor overrides the assumption of that name.
	MergeFactor float64
	Design
}

// Design says how entries reach regions.
type Design struct {
	// Name is empty for today's.
	Name string
	// Exchange has nodes send sorted runs to the one that imports a key range; ObjectStorage sorts through that.
	Exchange, ObjectStorage bool
	// Quota, MaxRuns and CheckpointSeconds override limits of today's.
	Quota, MaxRuns, CheckpointSeconds float64
}

// withDefaults fills in what is left zero.
func (c Cluster) withDefaults() Cluster {
	for _, d := range []struct {
		field *float64
		value float64
	}{
		{&c.Slowness, 1}, {&c.Nodes, 1}, {&c.NodeCores, 2}, {&c.Workers, reorgWorkers.Value}, {&c.DiskQuota, diskQuota.Value},
		{&c.NodeMemory, 23 * gib}, {&c.NodeDisk, 1.8e9}, {&c.NodeNetwork, 1.2e9},
		{&c.Stores, 1}, {&c.StoreShare, 1}, {&c.StoreRead, 1.8e9}, {&c.StoreWrite, 1e9},
		{&c.Replicas, 1}, {&c.RegionBytes, splitBytes.Value},
		{&c.Requests, maxSubranges.Value}, {&c.MaxRuns, maxRuns.Value}, {&c.MergeFactor, mergeFactor.Value}, {&c.CheckpointSeconds, 60 * checkpointMinutes.Value},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.StoreCores == 0 {
		c.StoreCores = c.NodeCores
	}
	if c.MemoryLimit == 0 {
		c.MemoryLimit = c.NodeMemory / 4 * 3
	}
	if c.BlockCache == 0 {
		c.BlockCache = min(c.MemoryLimit/4, 8*gib)
	}
	c.Workers = min(c.Workers, c.NodeCores)
	return c
}
