package model

import "math"

// plan computes a build on a cluster, step by step in the order of [Estimate].
type plan struct {
	b *Build
	c *Cluster
	Estimation

	table   float64 // bytes of all rows
	raw     float64 // bytes of all entries, with their prefixes
	runs    float64 // bytes of all entries in runs
	uneven  float64 // work of the node that has most, to the mean
	rows    float64 // of that node
	flushes float64 // of all nodes
	batches float64 // calls of the importer, of all nodes

	turns    float64 // pages that a worker waits for one after the other
	storeRow float64 // cost of a scan for the stores, a row
}

// Parts of costs that are measured together: what of a node's work for an entry is done while rows are scanned, and of
// the work of TiKV for a byte of an entry.
const (
	encodePart          = 0.35
	scanPart, sumPart   = 0.25, 0.25
	writePart           = 1 - scanPart - sumPart
	baseMemory          = 390 * mib
	baseScan            = 12 // bytes of an INT and a handle, for which the stand-in's cost of a row holds
	leastFile           = 4 * mib
	requestMemory       = 64 << 10
	sampleBytes         = 8 * mib // eight intervals of a MiB
	samplePartOfEntries = 1.0 / 32
)

func newPlan(b *Build, c *Cluster) *plan {
	p := &plan{b: b, c: c, uneven: 1}
	p.table = b.Rows * b.RowBytes
	p.raw = b.Rows * b.sum(func(x Index) float64 { return x.Pair + prefixBytes })
	p.runs = b.Rows * b.sum(func(x Index) float64 { return runHead + runShare.Value*x.Pair })
	return p
}

// cpu is seconds of a processor for so many things of a cost in nanoseconds.
func (p *plan) cpu(n, cost float64) float64 { return n * cost * nano * p.c.Slowness }

// divide follows dist.Count and dist.Choose.
func (p *plan) divide() {
	c := p.c
	n := min(p.table/partSize.Value, subtasksPerNode.Value*c.Nodes, maxSubtasks.Value)
	if c.Subtasks > 0 {
		n = c.Subtasks
	}
	p.Nodes, p.Subtasks = c.Nodes, math.Floor(n)
	if c.Nodes < 2 || n < 2 || c.Alone {
		p.Nodes, p.Subtasks = 1, 1
	}
	p.Nodes = min(p.Nodes, p.Subtasks)
	most := math.Ceil(p.Subtasks / p.Nodes)
	p.uneven = most * p.Nodes / p.Subtasks
	p.rows = p.b.Rows * most / p.Subtasks
	if p.Subtasks > 1 {
		tasks := max(p.table/taskBytes.Value, p.table/c.RegionBytes)
		p.Division = p.Subtasks * rangeBytes.Value * (min(subtaskRanges.Value, math.Ceil(tasks/p.Subtasks)+1) + samplePlaces.Value)
	}
}

// ofNodes is the time of work that nodes do in so many threads each.
func (p *plan) ofNodes(cpu, threads float64) float64 { return cpu * p.uneven / (p.Nodes * threads) }

// processors bounds work by the processors of nodes and of stores, or by those that they share.
func (p *plan) processors(s *Stage, nodes, stores, threads float64) {
	p.NodeCPU += nodes
	p.StoreCPU += stores
	if p.c.Shared {
		s.over(bound{"processors", (nodes + stores) / (busy * p.c.NodeCores)})
		return
	}
	s.over(bound{"nodes' processors", p.ofNodes(nodes, threads)})
	s.over(bound{"stores' processors", stores / (p.c.Stores * p.c.StoreCores * p.c.StoreShare)})
}

// ofStores is the time that all stores take for so many bytes.
func (p *plan) ofStores(bytes, rate float64) float64 {
	return bytes / (p.c.Stores * rate * p.c.StoreShare)
}

// extraBytes are those of a row's entries beyond the base.
func (p *plan) extraBytes() float64 {
	return p.b.sum(func(x Index) float64 { return max(0, x.Pair-basePair) })
}

// scan follows backfill's scan and kv/tikv: pages of a worker, several under way.
func (p *plan) scan() {
	b, c := p.b, p.c
	pageRows := min(maxPageRows.Value, pageBytes.Value/b.ScanBytes)
	if c.PageRows > 0 {
		pageRows = c.PageRows
	}
	fill := subrangeFill.Value
	if c.Requests == 1 {
		fill = 1
	}
	p.TableRegions = math.Ceil(p.table / c.RegionBytes) // a request reads one
	p.Pages = p.TableRegions * math.Ceil(b.Rows/p.TableRegions/(pageRows*fill))
	storeRow := tikvRow.Value + tikvByte.Value*scanPart*p.extraBytes()
	if c.Store == StandIn {
		storeRow = standInRow.Value + standInByte.Value*max(0, b.ScanBytes-baseScan)
	}
	encode := b.sum(func(x Index) float64 { return entryCost(fileEntry, x) * encodePart })
	s := Stage{Name: "scan"}
	p.processors(&s, p.cpu(b.Rows, pageRow.Value+encode), p.cpu(b.Rows, storeRow), c.Workers)
	s.over(bound{"stores' disks", p.ofStores(p.table, c.StoreRead)})
	s.over(bound{"nodes' network", p.ofNodes(b.Rows*b.ScanBytes/c.NodeNetwork, 1)})
	p.turns, p.storeRow = p.ofNodes(p.Pages, c.Workers*c.Requests), storeRow
	if c.Shared {
		s.Seconds += p.turns * c.Latency // workers wait together
	} else {
		s.over(bound{"answers", p.turns * (c.Latency + p.cpu(pageRows, storeRow))})
	}
	p.Stages = append(p.Stages, s)
	p.Sorting = planSort(b, c, p.rows, s.Seconds)
}

// regions follows sstimport: the regions of an import, and what they receive.
func (p *plan) regions() {
	b, c := p.b, p.c
	p.flushes = p.Nodes * p.Sorting.Flushes
	switch {
	case c.ObjectStorage:
		p.flushes = 1
	case c.Exchange: // all entries are in runs before any is imported, if the quotas have room for them
		p.flushes = math.Ceil(p.runs / (p.Nodes * c.DiskQuota * runsPercent.Value / 100))
	}
	p.PerRegion = (p.flushes + 1) / 2 // regions grow while flushes follow one another
	if b.Ordered {
		p.PerRegion = 1
	}
	region := splitBytes.Value
	if p.PerRegion > 1 {
		region = max(region, c.RegionBytes) // an import that brings less for a region than this splits none
	}
	for _, x := range b.Indexes {
		p.IndexRegions += math.Ceil(b.Rows * weight(x) / region)
	}
	p.batches = max(p.flushes, math.Ceil(p.raw*fileShare.Value/importBatch.Value))
	p.Imports = p.IndexRegions*p.PerRegion + p.batches - p.flushes // a batch ends within a region
	p.ImportBytes = p.raw / p.Imports
	p.Files = p.Imports * c.Replicas
	if p.PerRegion == 1 { // an import of few regions sends each several files
		p.Files *= max(1, min(math.Floor(storeStreams.Value/p.IndexRegions), math.Floor(p.ImportBytes/leastFile)))
	}
	p.Writes = p.Files
	p.Ingests = p.Imports * c.Replicas
	p.Lookups = p.Imports + 3*p.batches + p.IndexRegions
}

// transport adds how sorted runs reach the node that imports them, where today's design has each import its own.
func (p *plan) transport() {
	c, scan := p.c, &p.Stages[len(p.Stages)-1]
	if c.Exchange || c.ObjectStorage {
		p.Sorting.Spilled = 1
		p.Sorting.Runs = 0
	}
	switch {
	case c.Exchange: // runs are sent while others are made
		scan.over(bound{"exchange: network", p.ofNodes(p.runs*(p.Nodes-1)/p.Nodes/c.NodeNetwork, 1)})
		scan.over(bound{"exchange: disks", p.ofNodes(2*p.runs/c.NodeDisk, 1)})
		p.Sorting.Temp = min(p.runs/p.Nodes, c.DiskQuota*runsPercent.Value/100) + importBatch.Value
	case c.ObjectStorage:
		scan.over(bound{"object storage", p.ofNodes(p.runs/objectRate.Value, 1)})
		p.Objects = 2 * p.runs / objectPart.Value
		p.Sorting.Temp = importBatch.Value
		if p.runs/objectFile.Value > objectMerge.Value {
			p.Objects *= 2
			p.Stages = append(p.Stages, stage("merge", bound{"object storage", p.ofNodes(2*p.runs/objectRate.Value, 1)}))
		}
	}
}

// flush follows ingest, lightning and sstimport: pieces are merged into files while earlier files are imported.
func (p *plan) flush() {
	b, c := p.b, p.c
	threads := c.Workers
	if c.Workers >= c.NodeCores {
		threads = c.NodeCores // one more waits for the disk
	}
	s := Stage{Name: "sort and import"}
	nodes := b.sum(func(x Index) float64 {
		return entryCost(fileEntry, x)*(1-encodePart) + spillEntry.Value*p.Sorting.Spilled
	})
	stores := 0.0
	if c.Store == TiKV {
		stores = c.Replicas * (float64(len(b.Indexes))*tikvWrite.Value + tikvByte.Value*writePart*p.extraBytes())
	}
	p.processors(&s, p.cpu(b.Rows, nodes), p.cpu(b.Rows, stores), threads)
	rewritten := 1.0
	if !b.Ordered {
		rewritten = max(1, c.MergeFactor*math.Log10(p.flushes))
	}
	p.Compacted = p.raw * c.Replicas * rewritten
	p.CompactSeconds = p.Compacted * fileShare.Value / (c.Stores * c.StoreWrite * compactRate.Value)
	if !c.Shared {
		p.importBounds(&s)
	}
	p.Stages = append(p.Stages, s)
}

// importBounds are those of imports on machines of their own.
func (p *plan) importBounds(s *Stage) {
	c := p.c
	files := p.raw * fileShare.Value
	s.over(bound{"nodes' disks", p.ofNodes((2*p.runs*p.Sorting.Spilled+2*files)/c.NodeDisk, 1)})
	s.over(bound{"nodes' network", p.ofNodes(p.raw*c.Replicas/c.NodeNetwork, 1)})
	s.over(bound{"stores' disks", p.ofStores(files*c.Replicas, c.StoreWrite)})
	streams := min(importRegions.Value, storeStreams.Value*c.Stores/c.Replicas)
	s.over(bound{"import streams", p.ofNodes(p.Imports, streams) * (importAnswers.Value*c.Latency + importFixed.Value)})
	s.over(bound{"files of a store", p.Files / (c.Stores * storeIngest.Value)})
	s.over(bound{"PD", p.Lookups / pdRequests.Value})
	debt := p.Compacted*fileShare.Value/c.Stores - debtLimit.Value
	s.over(bound{"compaction", debt / (c.StoreWrite * compactRate.Value)})
	if c.ObjectStorage {
		s.over(bound{"object storage", p.ofNodes(p.runs/objectRate.Value, 1)})
	}
}

// verify follows backfill: the stores count the rows and sum up the entries, asked by the owner alone; or a sample is.
func (p *plan) verify() {
	b, c := p.b, p.c
	s := Stage{Name: "verify", By: "answers"}
	part := 1.0
	if b.Sampled {
		part = min(samplePartOfEntries, float64(len(b.Indexes))*sampleBytes/max(1, p.raw))
	} else {
		p.Counts = p.TableRegions
	}
	p.Sums = max(1, p.IndexRegions*part)
	sum := part * (float64(len(b.Indexes))*tikvSum.Value + tikvByte.Value*sumPart*p.extraBytes())
	count := 0.0
	if !b.Sampled {
		count = tikvCount.Value
	}
	if c.Store == StandIn {
		sum, count = 0, 0 // in the cost of a row
	}
	if b.CompareAll {
		count += p.storeRow + sum
	}
	cpu := p.cpu(b.Rows, sum+count)
	p.processors(&s, 0, cpu, c.Workers)
	if b.CompareAll && c.Shared {
		s.Seconds += p.turns * c.Latency
		p.Pages *= 2
	}
	if !c.Shared {
		s.over(bound{"requests under way", cpu/max(storeRequests.Value, c.Workers) + (p.Counts+p.Sums)/storeRequests.Value*c.Latency})
	}
	p.Stages = append(p.Stages, s)
}

// finish adds the job itself, and what a node holds.
func (p *plan) finish() {
	c := p.c
	answers := float64(answersAlone)
	if p.Subtasks > 1 {
		answers += answersShared
	}
	job := stage("job", bound{"answers one after the other", clusterJob.Value*nano*c.Slowness + answers*c.Latency})
	p.Stages = append([]Stage{job}, p.Stages...)
	p.NodeCPU += clusterJob.Value * nano * c.Slowness * busy
	p.Memory = baseMemory + p.Sorting.Memory + c.Workers*c.Requests*pageBytes.Value +
		min(importRegions.Value, p.IndexRegions)*c.Replicas*requestMemory + p.TableRegions*regionMeta.Value
	p.Temp = p.Sorting.Temp
}
