package model

// bound is how long a stage takes at least, for one reason.
type bound struct {
	by      string
	seconds float64
}

// Stage is a stage of a build: the longest of its bounds.
type Stage struct {
	Name    string
	Seconds float64
	// By names the bound.
	By string
}

func stage(name string, bounds ...bound) Stage {
	s := Stage{Name: name}
	for _, b := range bounds {
		s.over(b)
	}
	return s
}

// over raises the stage to a bound.
func (s *Stage) over(b bound) {
	if s.By == "" || b.seconds > s.Seconds {
		s.Seconds, s.By = b.seconds, b.by
	}
}

// Estimation is what the model says of a build.
type Estimation struct {
	// Nodes build, in Subtasks.
	Nodes, Subtasks float64
	Sorting         Sorting
	Stages          []Stage

	// TableRegions and IndexRegions are those that are read and written. Imports are pairs of a region and a flush; PerRegion is
	// their number for a region, ImportBytes their size in keys and values, Files what all replicas take in.
	TableRegions, IndexRegions, Imports, PerRegion, ImportBytes, Files float64
	// Pages, Counts and Sums are requests to the coprocessor, Writes streams of files, Ingests requests to take files in,
	// Lookups requests to PD, Objects those to object storage.
	Pages, Counts, Sums, Writes, Ingests, Lookups, Objects float64
	// NodeCPU and StoreCPU are processor seconds of all nodes and of all stores. Compacted are bytes that the stores write
	// again behind the imports, and CompactSeconds how long that takes.
	NodeCPU, StoreCPU, Compacted, CompactSeconds float64
	// Memory and Temp are of one node, Division is the transaction that writes the subtasks, in bytes.
	Memory, Temp, Division float64
}

// Seconds is the time of the statement.
func (e *Estimation) Seconds() (total float64) {
	for _, s := range e.Stages {
		total += s.Seconds
	}
	return total
}

// Longest is the stage that takes most of it.
func (e *Estimation) Longest() Stage {
	longest := e.Stages[0]
	for _, s := range e.Stages {
		if s.Seconds > longest.Seconds {
			longest = s
		}
	}
	return longest
}

// Estimate computes a build.
func Estimate(b Build, c Cluster) Estimation {
	c = c.withDefaults()
	if c.Store == Embedded {
		return estimateEmbedded(&b, &c)
	}
	p := newPlan(&b, &c)
	p.divide()
	p.scan()
	p.regions()
	p.transport()
	p.flush()
	p.verify()
	p.finish()
	return p.Estimation
}
