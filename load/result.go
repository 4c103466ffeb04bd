package load

import (
	"fmt"

	"fastddl/backfill"
	"fastddl/event"
	"fastddl/internal/stage"
	"fastddl/load/rows"
)

// Result is what a load did and what it cost.
type Result struct {
	// Rows were loaded, with Entries in all indexes; after a resume both include what was done before.
	Rows    int64 `json:"rows"`
	Entries int64 `json:"entries"`
	// RowsOf are the rows of each physical table, by ID.
	RowsOf map[int64]int64 `json:"rows_of"`
	// IDs are how far row IDs and generated keys were used.
	IDs rows.State `json:"ids"`
	// Statistics are those of the table's indexes, by index ID. An index is left out if they are not known: its statistics are ANALYZE's.
	Statistics map[int64]backfill.Statistics `json:"-"`
	// SourceBytes of the source's files were read.
	SourceBytes int64 `json:"source_bytes"`
	// Sampled says that a sample of what was loaded was read back, not all.
	Sampled bool `json:"sampled,omitempty"`
	// Workers is the number of workers at the end.
	Workers int `json:"workers"`
	// Files and IngestedBytes were imported, in Flushes rounds, by this run.
	Files         int    `json:"files"`
	IngestedBytes uint64 `json:"ingested_bytes"`
	Flushes       int    `json:"flushes"`

	// WallSeconds and CPUSeconds are those of this run; CPUSeconds is of the process, so it includes everything else that ran.
	WallSeconds float64 `json:"wall_seconds"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	// Stages is the CPU time of the load's own threads, by stage.
	Stages map[string]float64 `json:"stages"`

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
	s := fmt.Sprintf("job %d has loaded %d rows with %d index entries in %.3f s", e.ID, e.Result.Rows, e.Result.Entries, e.Result.WallSeconds)
	if e.Err != nil {
		s += fmt.Sprintf(": %v", e.Err)
	}
	return s
}

// stageSeconds are the costs of stages in seconds.
func stageSeconds(costs *stage.Costs) map[string]float64 {
	seconds := make(map[string]float64)
	for s := stage.Scan; s < stage.Idle; s++ {
		seconds[s.String()] = costs[s].CPU.Seconds()
	}
	return seconds
}
