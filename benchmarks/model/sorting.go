package model

import "math"

// Sorting is how a node sorts its entries.
type Sorting struct {
	// Flushes is how often it merges and imports what it has.
	Flushes float64
	// Runs are those of all indexes before a flush; Spilled is the part of all entries that goes through runs.
	Runs, Spilled float64
	// Memory is that of entries, Temp that of runs and files, at most, in bytes.
	Memory, Temp float64
	// Limit names what makes it flush before all rows are read; empty if nothing does.
	Limit string
}

const (
	entryHead  = 2  // bytes of the lengths of an entry in an arena (ingest/arena.go)
	recordRoom = 15 // bytes that a record may be longer in a run (ingest/run.go)
	runHead    = 3  // bytes of the lengths of a record
)

// planSort follows ingest: a worker whose part of the memory is full writes a run of each index; the job is flushed
// when the disk quota has no room for the next run, or there are too many.
func planSort(b *Build, c *Cluster, rows, scanSeconds float64) Sorting {
	indexes := float64(len(b.Indexes))
	memory := c.MemoryLimit / 8 * arenasPercent.Value / 100
	perWorker := min(memory/c.Workers, maxWorkerMemory)
	partitions := math.Floor(min(max(minPartitions.Value, perWorker/indexes/(partitionBlocks.Value*blockBytes)), maxPartitions.Value))
	unfilled := indexes * partitions * blockBytes / 2
	perRow := b.sum(func(x Index) float64 { return x.Pair + entryHead }) + 2*sortEntry.Value*min(1, (c.Workers+1)/partitions)
	spill := max(1, (perWorker-unfilled)/perRow) // rows of a worker whose memory is full
	run := spill * b.sum(func(x Index) float64 { return runHead + runShare.Value*x.Pair })
	bound := spill * b.sum(func(x Index) float64 { return x.Pair + entryHead + recordRoom })

	forRuns := c.DiskQuota * runsPercent.Value / 100
	byDisk := math.Floor(max(0, forRuns-bound)/run) + 1
	if bound > forRuns {
		byDisk = 0
	}
	byNumber := min(c.MaxRuns, max(maxRunFiles.Value, c.MaxRuns)/indexes)
	spills, limit := byDisk, "disk quota"
	if byNumber < spills {
		spills, limit = byNumber, "number of runs"
	}
	each := (spills + c.Workers/2) * spill
	if spills == 0 {
		each, limit = c.Workers*spill, "disk quota"
	}
	s := Sorting{Flushes: math.Ceil(rows / each), Limit: limit}
	if timed := math.Ceil(scanSeconds / c.CheckpointSeconds); timed > s.Flushes {
		s.Flushes, s.Limit = timed, "checkpoint interval"
	}
	if s.Flushes <= 1 {
		s.Flushes, s.Limit = 1, ""
	}
	each = rows / s.Flushes
	spilled := min(spills, c.Workers*math.Floor(each/(c.Workers*spill))) // what is left in memory goes into files from there
	s.Runs, s.Spilled = spilled*indexes, spilled*spill/each
	s.Memory = min(memory, each*perRow)
	files := min(c.DiskQuota*filesPercent.Value/100*(100-newcomers.Value)/100, importBatch.Value,
		each*b.sum(func(x Index) float64 { return fileShare.Value * (x.Pair + prefixBytes) }))
	s.Temp = max(spilled*run+files, min(min(spilled, c.Workers)*bound, forRuns)) // each acquires its bound at first
	return s
}
