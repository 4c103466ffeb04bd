package model

import "math"

// Hours of the machine with two cores, by the time of an index on an INT of 2 million rows: 0.42 s when it was quiet.
const (
	quietHour      = 1.0
	hourOfCounting = 0.55 / 0.42 // 24737a7 and 2975529
	hourOfPeers    = 0.61 / 0.42 // 879bf06; costs of clusters were measured in such hours
)

// Entries of the tables that were measured. A key part takes 9 bytes for an integer, and 9 for each 8 bytes of a string,
// one more group and a flag; a handle takes 9, or 8 as the value of a unique entry.
var (
	onInt       = Index{Pair: basePair}
	onChar      = Index{Pair: 1 + 16*9 + 9 + 1, Strings: 1}
	onPrefix    = Index{Pair: 1 + 7*9 + 9 + 1, Strings: 1} // c(50)
	onIntPrefix = Index{Pair: 9 + 1 + 3*9 + 9 + 1, Strings: 1}
	onIntID     = Index{Pair: 9 + 9 + 8, Unique: true}
)

// eight are the narrow indexes of benchmarks/peer.
func eight() []Index {
	const text = 1 + 2*9 // c(8), pad(8)
	return []Index{
		onInt, {Pair: 9 + 9 + 9 + 1}, onIntID,
		{Pair: text + 9 + 1, Strings: 1}, {Pair: text + 9 + 9 + 1, Strings: 1},
		{Pair: text + 9 + 1, Strings: 1}, {Pair: text + 9 + 9 + 1, Strings: 1}, {Pair: 9 + text + 9 + 1, Strings: 1},
	}
}

// sysbench is a build on sysbench's table, or on the tests' table of some 200 bytes a row.
func sysbench(rows float64, indexes ...Index) Build {
	b := Build{Rows: rows, RowBytes: 204, ScanBytes: baseScan, Indexes: indexes}
	for _, x := range indexes {
		if x.Strings > 0 {
			b.ScanBytes = baseScan + 120
		}
	}
	return b
}

// pebble is the machine with two cores and an embedded store.
func pebble(slowness float64) Cluster {
	return Cluster{Store: Embedded, Slowness: slowness, Workers: 2}
}

// standIn is the stand-in on the same machine, with eight regions of sysbench's rows.
func standIn(slowness, rows, latency float64) Cluster {
	return Cluster{Store: StandIn, Slowness: slowness, Shared: true, Alone: true, Latency: latency, RegionBytes: math.Ceil(rows * 204 / 8)}
}

// longValues are values of 7,000 bytes in 16 regions of the stand-in, whose answers are 0.2 s late.
func longValues(rows, nodes, requests, pageRows float64) (Build, Cluster) {
	b := Build{Rows: rows, RowBytes: 7000, ScanBytes: 7000, Indexes: []Index{onPrefix}}
	c := Cluster{
		Store: StandIn, Slowness: hourOfPeers, Shared: true, Latency: 0.2, RegionBytes: math.Ceil(rows * 7000 / 16),
		Nodes: nodes, Alone: nodes == 1, Subtasks: 3, Requests: requests, PageRows: pageRows,
	}
	return b, c
}

// oneTiKV is a real TiKV on the same machine, by so many nodes.
func oneTiKV(nodes float64) Cluster {
	return Cluster{Slowness: hourOfPeers, Shared: true, Nodes: nodes, Alone: nodes == 1, Subtasks: 4 * nodes, Latency: 0.0005}
}

// Production is the cluster that the tables assume for a table of so many rows: stores for the data, with half of their
// processors and disks for the build.
func Production(rows, nodes float64) Cluster {
	const storeBytes = 1.5 * tib
	return Cluster{
		Nodes: nodes, NodeCores: 16, NodeMemory: 32 * gib, NodeDisk: 500e6, NodeNetwork: 1.2e9,
		Stores: max(3, math.Ceil(3*rows*200/storeBytes)), StoreCores: 16, StoreShare: 0.5, StoreRead: 1e9, StoreWrite: 500e6,
		Replicas: 3, RegionBytes: 256 * mib, Latency: 0.001,
	}
}

// defaultNodes is how many nodes build by default (dist.AutomaticNodes).
func (c Cluster) defaultNodes() float64 { return max(3, math.Floor(c.Stores/3)) }

// Designs are today's and what is compared with it.
func Designs() []Design {
	const hours = 3600
	return []Design{
		{},
		{Name: "larger quotas", Quota: tib, MaxRuns: 1024, CheckpointSeconds: 4 * hours},
		{Name: "exchange", Exchange: true, CheckpointSeconds: 4 * hours},
		{Name: "exchange, larger quotas", Exchange: true, Quota: tib, MaxRuns: 1024, CheckpointSeconds: 4 * hours},
		{Name: "object storage", ObjectStorage: true, CheckpointSeconds: 4 * hours},
	}
}

// With returns the cluster with a design.
func (c Cluster) With(d Design) Cluster {
	c.Design = d
	if d.Quota > 0 {
		c.DiskQuota = d.Quota
	}
	return c
}

// name is never empty.
func (d Design) name() string {
	if d.Name == "" {
		return "today's"
	}
	return d.Name
}
