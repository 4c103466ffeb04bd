package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"fastddl/sbtest"
)

// Machine is where something was measured.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes uint64 `json:"memory_bytes"`
	Kernel      string `json:"kernel"`
}

// Peers is a comparison of systems. Times are in seconds, unless named
// otherwise.
type Peers struct {
	Machine Machine `json:"machine"`
	Setup   Setup   `json:"setup"`
	// Servers are in the order in which they were asked for.
	Servers []Server `json:"servers"`
	Systems []System `json:"systems"`
	Runs    []Run    `json:"runs"`
	// Complete is false where the benchmark was broken off or ran out of time.
	Complete bool `json:"complete"`
}

// Setup is what was asked for.
type Setup struct {
	Rows       []int     `json:"rows"`
	Cases      []string  `json:"cases"`
	LoadCases  []string  `json:"load_cases"`
	Shares     []float64 `json:"shares"`
	Threads    int       `json:"threads"`
	Rounds     int       `json:"rounds"`
	SlowRounds int       `json:"slow_rounds"`
	Seed       uint64    `json:"seed"`
}

// Server is a database server, by the size of its table.
type Server struct {
	Name     string   `json:"name"`
	Rows     int      `json:"rows"`
	Version  string   `json:"version"`
	Settings []string `json:"settings"`
	// LoadSeconds is the time the table took to load; it is in no other figure.
	LoadSeconds float64 `json:"load_seconds"`
	// Capacity is the number of transactions per second in a closed loop; 0 if it
	// was not measured.
	Capacity float64 `json:"capacity"`
	// Failed says why the server was given up.
	Failed string `json:"failed,omitempty"`
}

// System is a way of adding indexes.
type System struct {
	Name         string `json:"name"`
	Title        string `json:"title"`
	Server       string `json:"server"`
	Statement    string `json:"statement"`
	BlocksWrites bool   `json:"blocks_writes"`
	// Skipped says why it was not measured at all.
	Skipped string `json:"skipped,omitempty"`
}

// Run is one measurement of a system: one ADD INDEX alone, or some, one after
// the other, under load.
type Run struct {
	System string `json:"system"`
	Rows   int    `json:"rows"`
	Case   string `json:"case"`
	Round  int    `json:"round"`
	// Seconds are of each ADD INDEX, from sending the statement to its answer.
	Seconds []float64 `json:"seconds"`
	// CPUSeconds and PeakMemoryBytes are of the server's processes, and of the
	// tool that added the index; without load only.
	CPUSeconds      float64 `json:"cpu_seconds,omitempty"`
	PeakMemoryBytes uint64  `json:"peak_memory_bytes,omitempty"`
	// Load is what ran beside it, if anything.
	Load *Load `json:"load,omitempty"`
	// Failed says why there are no figures.
	Failed string `json:"failed,omitempty"`
}

// Load is the foreground beside an ADD INDEX.
type Load struct {
	// Share is the part of the server's capacity, PerSecond what that was in
	// transactions per second.
	Share     float64 `json:"share"`
	PerSecond float64 `json:"per_second"`
	// Before is before the first ADD INDEX, During is during all of them.
	Before sbtest.LatencySummary `json:"before"`
	During sbtest.LatencySummary `json:"during"`
	// Errors are some of those by which transactions failed.
	Errors string `json:"errors,omitempty"`
	// Timeline are the transactions that committed in each BucketSeconds; the
	// indexes were added in the intervals Adding, in seconds. First rounds only.
	Timeline      []int        `json:"timeline,omitempty"`
	BucketSeconds float64      `json:"bucket_seconds,omitempty"`
	Adding        [][2]float64 `json:"adding,omitempty"`
}

// Scale is how the project's own ADD INDEX scales with rows and workers.
type Scale struct {
	Machine Machine `json:"machine"`
	Version string  `json:"version"`
	Index   string  `json:"index"`
	// BySize has one worker per core, ByWorkers one size.
	BySize    []ScalePoint `json:"by_size"`
	ByWorkers []ScalePoint `json:"by_workers"`
	// Complete is false where the benchmark was broken off.
	Complete bool `json:"complete"`
}

// ScalePoint is a table of one size, and the runs on it.
type ScalePoint struct {
	Rows         int        `json:"rows"`
	Workers      int        `json:"workers"`
	FloorSeconds float64    `json:"floor_seconds"`
	Runs         []ScaleRun `json:"runs"`
}

// ScaleRun is one ADD INDEX.
type ScaleRun struct {
	Seconds       float64 `json:"seconds"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	PeakRSSBytes  uint64  `json:"peak_rss_bytes"`
	PeakTempBytes int64   `json:"peak_temp_bytes"`
}

// Write writes a result as indented JSON, in one step: a reader sees the last
// one or this one.
func Write(path string, v any) (err error) {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return WriteFile(path, append(text, '\n'))
}

// WriteFile writes a file in one step.
func WriteFile(path string, text []byte) error {
	making := path + ".new"
	if err := os.WriteFile(making, text, 0o644); err != nil {
		return err
	}
	return os.Rename(making, path)
}

// Read reads what Write wrote.
func Read(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
