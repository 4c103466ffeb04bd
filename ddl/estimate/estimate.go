package estimate

import (
	"math"

	"fastddl/ingest"
)

// Estimate is what a build will cost. Bytes and rows are numbers, so that programs can compare them.
type Estimate struct {
	Rows Rows `json:"rows"`
	// Indexes are those to be built.
	Indexes []IndexEstimate `json:"indexes"`
	// ReadBytes is what is read of rows.
	ReadBytes int64 `json:"read_bytes"`
	// MemoryBytes and TempBytes are peaks; StoreBytes is what all indexes occupy in the store, in all Replicas.
	MemoryBytes int64 `json:"memory_bytes"`
	TempBytes   int64 `json:"temp_bytes"`
	StoreBytes  int64 `json:"store_bytes"`
	Replicas    int   `json:"replicas"`
	// SpilledBytes pass through the temp folder, in Rounds rounds of scanning, sorting and importing.
	SpilledBytes int64 `json:"spilled_bytes"`
	Rounds       int   `json:"rounds"`
	// Seconds is the time of the job once it is its turn, Stages how it is made up.
	Seconds Range   `json:"seconds"`
	Stages  []Stage `json:"stages"`
	Workers int     `json:"workers"`
	// Share is what the governor leaves the build of the processors, WriteLimit the bytes per second that it may write; 0 is no limit.
	Share      float64 `json:"share"`
	WriteLimit int64   `json:"write_limit"`
	// MeasuredBuilds is how many builds of this server the seconds were learned from.
	MeasuredBuilds int `json:"measured_builds"`
	// Needs are the resources that must have room, Verdict whether they have, Missing what has not.
	Needs   []Need  `json:"needs"`
	Verdict Verdict `json:"verdict"`
	Missing string  `json:"missing,omitempty"`
}

// Rows is the number of rows: a count if Exact, otherwise with a standard error of Error of it.
type Rows struct {
	Number int64   `json:"number"`
	Exact  bool    `json:"exact"`
	Error  float64 `json:"error"`
	// Sampled is how many were looked at.
	Sampled int64 `json:"sampled"`
}

// IndexEstimate is one index.
type IndexEstimate struct {
	Name    string `json:"name"`
	Entries int64  `json:"entries"`
	// Bytes is what the index occupies in one replica of the store.
	Bytes int64 `json:"bytes"`
	// Duplicates says what the sample says of equal values; nil of an index that is not unique.
	Duplicates *Duplicates `json:"duplicates,omitempty"`
	// Beginning names an index that begins with the columns already.
	Beginning string `json:"existing_index,omitempty"`
}

// Duplicates is what a sample says of equal values.
type Duplicates struct {
	// Found is how many rows of the sample have the values of another one.
	Found int64 `json:"found"`
	// AtMost is the greatest part of the rows that have equal values, at a confidence of 95%: 0 if all rows were looked at and have none.
	AtMost float64 `json:"at_most"`
}

// Range is a time in seconds.
type Range struct {
	Low    float64 `json:"low"`
	Likely float64 `json:"likely"`
	High   float64 `json:"high"`
}

// Stage is a stage of the build.
type Stage struct {
	Stage   string  `json:"stage"`
	Seconds float64 `json:"seconds"`
}

// Of returns the estimate of a build.
func Of(in Input) Estimate {
	e := Estimate{
		Rows:      Rows{Number: in.Rows, Exact: in.Exact, Error: in.RowsError, Sampled: in.Sampled},
		ReadBytes: in.ReadBytes, Replicas: max(1, in.Disks.Replicas), Workers: max(1, in.Outlook.Workers),
		Share: in.Outlook.Flow.Share, WriteLimit: in.Outlook.WriteSpeed,
	}
	if e.Share <= 0 {
		e.Share = 1
	}
	w := Work{
		Rows: float64(in.Rows), ReadBytes: float64(in.ReadBytes), Workers: float64(e.Workers), Mergers: float64(in.Outlook.Mergers),
		Cores: max(1, float64(in.Cores)/float64(1+in.Outlook.Jobs)), Full: in.Full, Compared: in.Compared,
	}
	var volumes []ingest.Volume
	for i := range in.Indexes {
		idx := &in.Indexes[i]
		entries, raw := in.entriesOf(idx)
		stored := storedBytes(idx, entries)
		one := IndexEstimate{Name: idx.Name, Entries: whole(entries), Bytes: whole(stored), Beginning: idx.Beginning}
		if idx.Unique {
			one.Duplicates = in.duplicates(idx, entries)
			w.Compared = true
		}
		e.Indexes = append(e.Indexes, one)
		e.StoreBytes += one.Bytes * int64(e.Replicas)
		w.Entries += entries
		w.EntryBytes += raw
		volumes = append(volumes, ingest.Volume{
			Entries: one.Entries, Bytes: whole(raw), RunBytes: whole(runBytes(idx, entries, raw, &in.Outlook)), FileBytes: one.Bytes,
			Targets: idx.Targets,
		})
	}
	f := in.Outlook.Forecast(volumes, in.Groups)
	e.MemoryBytes, e.TempBytes, e.SpilledBytes, e.Rounds = f.MemoryBytes, f.TempBytes, f.SpilledBytes, f.Rounds
	w.SpilledBytes = float64(f.SpilledBytes)
	e.time(&in, &w)
	if in.CheckpointSeconds > 0 {
		scan := e.Stages[0].Seconds
		e.Rounds = max(e.Rounds, int(math.Ceil(scan/in.CheckpointSeconds)))
	}
	e.judge(&in, f)
	return e
}

func whole(x float64) int64 { return int64(math.Round(min(x, math.MaxInt64/4))) }

// runBytes returns what the entries of an index occupy in sorted runs, each of which has what a worker's memory holds.
func runBytes(idx *Index, entries, raw float64, o *ingest.Outlook) float64 {
	if entries == 0 {
		return 0
	}
	inRun := entries
	if perWorker := float64(o.MemoryPart) / float64(max(1, o.Workers)); raw > perWorker && perWorker > 0 {
		inRun = entries * perWorker / raw
	}
	each := extrapolate(idx.Sorted, inRun) / inRun
	return each * entries
}

// duplicates says what the sample says of equal values among all entries. A pair of equal rows, of which there are d, is in a
// sample of the part f of the rows with a chance of f*f: without one in it, d is below 3/(f*f) at a confidence of 95%.
func (in *Input) duplicates(idx *Index, entries float64) *Duplicates {
	d := &Duplicates{Found: idx.Repeated, AtMost: 1}
	switch {
	case idx.Repeated > 0:
	case in.Complete:
		d.AtMost = 0
	case entries > 0:
		f := min(1, float64(idx.SampleEntries)/entries)
		d.AtMost = min(1, 2*3/(f*f)/entries)
	}
	return d
}

// time fills in the seconds.
func (e *Estimate) time(in *Input, w *Work) {
	likely, variance := 0.0, 0.0
	for _, stage := range Stages {
		seconds := w.base(stage)
		if seconds == 0 {
			continue
		}
		factor, spread := in.Rates.of(stage)
		seconds *= factor
		if stage != StageWait {
			seconds /= e.Share
		}
		if stage == StageScan || stage == StageMerge {
			seconds /= float64(max(1, in.Nodes))
		}
		if limit := float64(in.Outlook.WriteSpeed); stage == StageMerge && limit > 0 {
			seconds = max(seconds, w.EntryBytes/limit)
		}
		e.Stages = append(e.Stages, Stage{stage, seconds})
		e.MeasuredBuilds = max(e.MeasuredBuilds, in.Rates[stage].Builds)
		likely += seconds
		variance += seconds * spread // the stages depend on the same machine: their errors add up
	}
	part := min(0.9, variance/max(likely, 1e-9)+in.RowsError)
	e.Seconds = Range{Low: likely * (1 - part), Likely: likely, High: likely * (1 + part)}
}
