package flowtest

import (
	"sync/atomic"
	"time"

	"fastddl/flow"
)

// Foreground says that there is a foreground whose statements take longer than any target, or that there is
// none. It implements flow.Sampler; the zero value is none.
type Foreground struct {
	// Hurt says that there is one.
	Hurt atomic.Bool
	// Samples is how often it was asked.
	Samples atomic.Int64
}

// Begin implements flow.Sampler.
func (f *Foreground) Begin(now time.Time) flow.Signals { return f.Sample(now) }

// Sample implements flow.Sampler.
func (f *Foreground) Sample(time.Time) flow.Signals {
	f.Samples.Add(1)
	s := flow.Signals{Elapsed: flow.Interval}
	if f.Hurt.Load() {
		s.Statements, s.Foreground = time.Second, flow.Interval
		s.Latencies[len(s.Latencies)-1] = 100
	}
	return s
}
