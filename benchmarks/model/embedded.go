package model

// estimateEmbedded is a build in the server's own process over Pebble, which scans and counts, sorts and writes files,
// links them, and reads the entries back. Reading ahead, writing and compacting keep all cores busy for any number
// of workers: on two cores it makes no difference (benchmarks/results/scale.json).
func estimateEmbedded(b *Build, c *Cluster) Estimation {
	e := Estimation{Nodes: 1, Subtasks: 1, PerRegion: 1}
	table := b.Rows * b.RowBytes
	scan := pebbleRow.Value + pebbleCount.Value
	if c.Cold || table > c.BlockCache {
		scan += pebbleCold.Value * b.RowBytes
	}
	cores := busy * c.NodeCores
	onCores := func(perRow float64) float64 { return b.Rows * perRow * nano * c.Slowness / cores }
	scanning := stage("scan", bound{"processors", onCores(scan)})
	if table > c.BlockCache {
		scanning.over(bound{"disk", table / c.StoreRead})
	}
	e.Sorting = planSort(b, c, b.Rows, scanning.Seconds)
	rewritten := e.Sorting.Flushes - 1 // flushes after the first lie over others, and are compacted
	files := b.Rows * b.sum(func(x Index) float64 { return fileShare.Value * (x.Pair + prefixBytes) })
	merge := b.sum(func(x Index) float64 { return entryCost(entryWork, x) + spillEntry.Value*e.Sorting.Spilled })
	merge += float64(len(b.Indexes)) * (pebbleVerify.Value + entryWork.Value/2) * rewritten / e.Sorting.Flushes
	merging := stage("sort and write", bound{"processors", onCores(merge)}, bound{"disk", files / c.StoreWrite})
	reading := stage("verify", bound{"processors", onCores(pebbleVerify.Value * float64(len(b.Indexes)))})
	if b.Sampled {
		reading = stage("verify", bound{"sample", 0.01})
	}
	if b.CompareAll {
		reading.Seconds += onCores(pebbleRow.Value + pebbleCount.Value + float64(len(b.Indexes))*(pebbleVerify.Value+entryWork.Value/2))
	}
	e.Stages = []Stage{stage("job", bound{"schema versions", embeddedJob.Value * nano * c.Slowness}), scanning, merging, reading}
	e.NodeCPU = b.Rows * (scan + merge + pebbleVerify.Value*float64(len(b.Indexes))) * nano * c.Slowness
	e.Temp = max(e.Sorting.Temp, min(files, importBatch.Value))
	e.Memory = 390*mib + min(table, c.BlockCache) + e.Sorting.Memory
	return e
}
