package bench

import (
	"encoding/json"
	"io"

	"fastddl/backfill"
	"fastddl/bench/floor"
	"fastddl/internal/stats"
)

// Result is what a benchmark measured, as it is printed. Times are in seconds.
type Result struct {
	// Version is the build's; Cores the number of processors it may use.
	Version string `json:"version"`
	Cores   int    `json:"cores"`
	// Store is "pebble" or "tikv". In a cluster all other figures than the times of the
	// runs are of this process alone.
	Store string `json:"store"`

	Rows    int    `json:"rows"`
	Index   string `json:"index"`
	Unique  bool   `json:"unique"`
	Workers int    `json:"workers"`
	// Engine is who built the index; FastReorg matters to TiDB alone.
	Engine    string `json:"engine"`
	FastReorg bool   `json:"fast_reorg"`

	// LoadSeconds is the time the table took to load; it is in no other figure.
	LoadSeconds float64 `json:"load_seconds"`
	Runs        []Run   `json:"runs"`
	// MedianSeconds is the median of the runs' wall time.
	MedianSeconds float64 `json:"median_seconds"`
	RowsPerSecond float64 `json:"rows_per_second"`
	// Floor is measured after the runs, on the same table.
	Floor floor.Floor `json:"floor"`
	// Ratio is MedianSeconds to Floor.Seconds.
	Ratio float64 `json:"ratio"`
}

// Run is one ADD INDEX.
type Run struct {
	// Seconds is the wall time that the client sees, from sending the statement
	// to its answer; CPUSeconds is what the process used meanwhile.
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	// PeakRSSBytes is the process' peak memory, PeakTempBytes that of the files
	// in the temp folder; both are looked at from outside every 10 ms.
	PeakRSSBytes  uint64 `json:"peak_rss_bytes"`
	PeakTempBytes int64  `json:"peak_temp_bytes"`
	// Backfill is what the build says of itself, by stage.
	Backfill backfill.Result `json:"backfill"`
}

// WriteJSON prints the result, indented.
func (r *Result) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// summarise fills in what follows from the runs and the floor.
func (r *Result) summarise() {
	seconds := make([]float64, len(r.Runs))
	for i, run := range r.Runs {
		seconds[i] = run.Seconds
	}
	r.MedianSeconds = stats.Median(seconds)
	r.RowsPerSecond = float64(r.Rows) / r.MedianSeconds
	r.Ratio = r.MedianSeconds / r.Floor.Seconds
}
