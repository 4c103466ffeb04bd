package governortest

import (
	"sync/atomic"
	"time"

	"fastddl/ingest/governor"
)

// Foreground says that there is a foreground that builds hurt, or that there is
// none. It implements ingest.Sampler; the zero value is none.
type Foreground struct {
	// Hurt says that builds hurt it, Stalled that the store's writers are stalled.
	Hurt, Stalled atomic.Bool
	// Samples is how often it was asked.
	Samples atomic.Int64
}

// Begin implements ingest.Sampler.
func (f *Foreground) Begin(now time.Time) governor.Signals { return f.Sample(now) }

// Sample implements ingest.Sampler.
func (f *Foreground) Sample(time.Time) governor.Signals {
	f.Samples.Add(1)
	s := governor.Signals{Elapsed: governor.Interval, Processors: 2, WriteStalled: f.Stalled.Load()}
	if f.Hurt.Load() {
		s.Statements = time.Second
		s.Foreground = governor.Threads{Run: governor.Interval / 2, Wait: 4 * governor.Interval}
		s.Builds, s.Busy = governor.Interval, 2*governor.Interval
	}
	return s
}
