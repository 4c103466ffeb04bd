package backfill

import (
	"fmt"
	"time"

	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/stage"
)

// Result is what a build did and what it cost.
type Result struct {
	// Rows were scanned and Entries built, over all indexes; after a resume both
	// include what was done before.
	Rows    int64 `json:"rows"`
	Entries int64 `json:"entries"`
	// Counted says that the rows were counted, by their keys or by the store's scans, apart from what was decoded.
	Counted bool `json:"counted"`
	// Sampled says that a sample of the entries was read back, not all.
	Sampled bool `json:"sampled,omitempty"`
	// Deferred says that the entries at the build's timestamp were not summed up: if a
	// comparison finds them equal to the rows, nothing is wrong with them. If it does not, Run
	// is to be called again, with the last checkpoint and Spec.Differed, before anything is
	// repaired.
	Deferred bool `json:"deferred"`
	// Given are the totals of the entries that the rows give, by index, if the build is Deferred.
	Given []ingest.Totals `json:"given,omitempty"`
	// Workers is the number of workers at the end.
	Workers int `json:"workers"`
	// Files and IngestedBytes were imported, in Flushes rounds.
	Files         int    `json:"files"`
	IngestedBytes uint64 `json:"ingested_bytes"`
	Flushes       int    `json:"flushes"`
	// Rebuilt says that the first verification failed.
	Rebuilt bool `json:"rebuilt"`

	// WallSeconds and CPUSeconds are those of the whole build; CPUSeconds is of
	// the process, so it includes everything else that ran, and of one that did a part of the build.
	WallSeconds float64 `json:"wall_seconds"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	Stages      Stages  `json:"stages"`

	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	PeakTempBytes   int64 `json:"peak_temp_bytes"`
}

// Finished: Run ends. Result is what it returns, also with an error.
type Finished struct {
	event.Job
	Result Result
	Err    error
}

func (e Finished) String() string {
	s := fmt.Sprintf("job %d has built %d entries of %d rows in %.3f s", e.ID, e.Result.Entries, e.Result.Rows, e.Result.WallSeconds)
	if e.Err != nil {
		s += fmt.Sprintf(": %v", e.Err)
	}
	return s
}

// SampleRead: intervals of a build's indexes were read back, which have Read of the Entries. The seed has chosen them.
type SampleRead struct {
	event.Job
	Seed          uint64
	Read, Entries int64
}

func (e SampleRead) String() string {
	return fmt.Sprintf("job %d has read back %d of %d entries, as seed %d has chosen", e.ID, e.Read, e.Entries, e.Seed)
}

// Stages is the cost of each stage of a build.
type Stages struct {
	Scan   Cost `json:"scan"`
	Encode Cost `json:"encode"`
	Sort   Cost `json:"sort"`
	Spill  Cost `json:"spill"`
	Merge  Cost `json:"merge"`
	Write  Cost `json:"write"`
	Ingest Cost `json:"ingest"`
	Verify Cost `json:"verify"`
}

// Cost is what one stage took: its share of the time that passed, and the CPU
// time of the build's own threads.
type Cost struct {
	WallSeconds float64 `json:"wall_seconds"`
	CPUSeconds  float64 `json:"cpu_seconds"`
}

// meter adds up the cost of a build.
type meter struct {
	started    time.Time
	startedCPU time.Duration

	// The time that passed in each phase; stages of one phase run side by side.
	scanning, merging, verifying time.Duration
	// elsewhere is the processor time of another process.
	elsewhere time.Duration
}

func newMeter() *meter { return &meter{started: time.Now(), startedCPU: stage.ProcessCPU()} }

// fill completes r.
func (m *meter) fill(r *Result, costs *stage.Costs) {
	r.WallSeconds = time.Since(m.started).Seconds()
	r.CPUSeconds = (stage.ProcessCPU() - m.startedCPU + m.elsewhere).Seconds()
	phases := []struct {
		wall   time.Duration
		stages map[stage.Stage]*Cost
	}{
		{m.scanning, map[stage.Stage]*Cost{
			stage.Scan: &r.Stages.Scan, stage.Encode: &r.Stages.Encode,
			stage.Sort: &r.Stages.Sort, stage.Spill: &r.Stages.Spill,
		}},
		{m.merging, map[stage.Stage]*Cost{
			stage.Merge: &r.Stages.Merge, stage.Write: &r.Stages.Write, stage.Ingest: &r.Stages.Ingest,
		}},
		{m.verifying, map[stage.Stage]*Cost{stage.Verify: &r.Stages.Verify}},
	}
	for _, p := range phases {
		var sum time.Duration
		for s := range p.stages {
			sum += costs[s].Wall
		}
		for s, cost := range p.stages {
			cost.CPUSeconds = costs[s].CPU.Seconds()
			if sum > 0 {
				cost.WallSeconds = p.wall.Seconds() * float64(costs[s].Wall) / float64(sum)
			}
		}
	}
}

// addJob adds what an ingest job did.
func (r *Result) addJob(s *ingest.Stats) {
	r.Files += s.Files
	r.IngestedBytes += s.Bytes
	r.PeakMemoryBytes = max(r.PeakMemoryBytes, s.PeakMemoryBytes)
	r.PeakTempBytes = max(r.PeakTempBytes, s.PeakTempBytes)
}
