package flow

import "time"

// Signals are what was observed of the foreground.
type Signals struct {
	// Elapsed is the time since the signals before, which Foreground and Latencies belong to.
	Elapsed time.Duration
	// Statements is the time that foreground statements have taken within the last
	// second, summed over sessions.
	Statements time.Duration
	// Foreground is how long threads of the foreground ran, or could have run but had no processor, summed; 0 where that is not known.
	Foreground time.Duration

	// Latencies are those of the statements that have ended, and Target is what 99 of 100 are to take at most; 0 is no target.
	Latencies Latencies
	Target    time.Duration
}

// Reason is why builds do not have everything; empty if they do.
type Reason string

// The reasons.
const (
	TargetLatency Reason = "target latency"
	// ProcessorQuota is a container's, which others of it use: package worker limits decisions by it.
	ProcessorQuota Reason = "processor quota"
	// Statements is not the controller's: workers yield to statements that run.
	Statements Reason = "statements"
)

// Reasons lists those of a controller's decisions.
var Reasons = []Reason{TargetLatency}

// Decision is what builds may do until the next one.
type Decision struct {
	// Share is the part of the time that the workers of builds may run, above 0, up
	// to 1.
	Share float64
	// Reason is why Share is less than 1.
	Reason Reason
	// Foreground says that statements run, whether or not builds have to yield to them.
	Foreground bool
	// OffCPU is how many of the statements that run hardly use a processor: they wait
	// for something else, and workers need not yield to them.
	OffCPU int
}

// Full is the decision that lets builds have everything.
var Full = Decision{Share: 1}
