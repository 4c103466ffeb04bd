package flowtest

import (
	"sync/atomic"
	"time"

	"fastddl/flow"
)

// Foreground says that there is a foreground that builds hurt, or that there is
// none. It implements flow.Sampler; the zero value is none.
type Foreground struct {
	// Hurt says that builds hurt it.
	Hurt atomic.Bool
	// Samples is how often it was asked.
	Samples atomic.Int64
}

// Begin implements flow.Sampler.
func (f *Foreground) Begin(now time.Time) flow.Signals { return f.Sample(now) }

// Sample implements flow.Sampler.
func (f *Foreground) Sample(time.Time) flow.Signals {
	f.Samples.Add(1)
	s := flow.Signals{Elapsed: flow.Interval, Processors: 2}
	if f.Hurt.Load() {
		s.Statements = time.Second
		s.Foreground = flow.ThreadTime{Run: flow.Interval / 2, Wait: 4 * flow.Interval}
		s.Builds, s.Busy = flow.Interval, 2*flow.Interval
	}
	return s
}
