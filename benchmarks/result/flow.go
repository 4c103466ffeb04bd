package result

import "fastddl/sbtest"

// Flow is a comparison of the mechanisms of flow control: builds beside loads, with each of the mechanisms left out.
type Flow struct {
	Machine Machine   `json:"machine"`
	Version string    `json:"version"`
	Setup   FlowSetup `json:"setup"`
	// Capacity is the number of transactions per second in a closed loop, as it was at the beginning.
	Capacity float64 `json:"capacity"`
	// Variants are in the order of the report.
	Variants []FlowVariant `json:"variants"`
	// Slots are in the order in which they were measured.
	Slots []FlowSlot `json:"slots"`
	// Complete is false where the benchmark was broken off or ran out of time.
	Complete bool `json:"complete"`
}

// FlowSetup is what was asked for.
type FlowSetup struct {
	Rows    int       `json:"rows"`
	Case    string    `json:"case"`
	Shares  []float64 `json:"shares"`
	Rounds  int       `json:"rounds"`
	Builds  int       `json:"builds"`
	Threads int       `json:"threads"`
	// Seed makes the order of the variants, the rows and the loads.
	Seed uint64 `json:"seed"`
}

// The kinds of a variant.
const (
	// FlowQuiet has no builds.
	FlowQuiet = "quiet"
	// FlowAll has all mechanisms, and FlowAgain is the same once more, from which the noise is taken.
	FlowAll   = "all"
	FlowAgain = "again"
	// FlowWithout has all mechanisms but one.
	FlowWithout = "without"
)

// FlowVariant is a way of running builds.
type FlowVariant struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Builds says where builds run; variants with the same are compared. Empty for FlowQuiet.
	Builds string `json:"builds,omitempty"`
	// Without is the mechanism that is left out, and Title describes it.
	Without string `json:"without,omitempty"`
	Title   string `json:"title,omitempty"`
	// Skipped says why it was not measured.
	Skipped string `json:"skipped,omitempty"`
}

// FlowSlot is one variant beside one load in one round: builds one after the other, for some seconds.
type FlowSlot struct {
	Variant string `json:"variant"`
	Round   int    `json:"round"`
	// Share is the part of the capacity at which transactions arrive; 0 is the closed loop.
	Share float64 `json:"share"`
	// PerSecond is the number of transactions that arrive in a second; in the closed loop it is the capacity.
	PerSecond float64 `json:"per_second"`
	// During is of the whole slot, in which indexes are added and dropped without a pause.
	During sbtest.LatencySummary `json:"during"`
	// BuildSeconds are of each ADD INDEX, from sending the statement to its answer.
	BuildSeconds []float64 `json:"build_seconds,omitempty"`
	// Failed says why there were not more builds.
	Failed string `json:"failed,omitempty"`
	// Errors are some of those by which transactions failed.
	Errors string `json:"errors,omitempty"`
}
