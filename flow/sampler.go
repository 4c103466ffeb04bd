package flow

import (
	"runtime"
	"time"
)

// StoreSignals are a store's load at one moment.
type StoreSignals struct {
	// Commits is the number of commits since the store was opened, CommitTime what
	// they have taken together.
	Commits    int64
	CommitTime time.Duration
	// CommitsPerSecond and CommitMean are the rate and the mean latency of the last seconds.
	CommitsPerSecond float64
	CommitMean       time.Duration
}

// LoadSampler observes this process, the machine and a store. It implements
// Sampler.
type LoadSampler struct {
	store      func() StoreSignals
	statements *StatementMeter
	usage      usageMeter

	last       time.Time
	commits    int64
	commitTime time.Duration
	latencies  Latencies
}

// NewLoadSampler returns a sampler of a store and of the statements of a server's
// clients.
func NewLoadSampler(store func() StoreSignals, statements *StatementMeter) *LoadSampler {
	return &LoadSampler{store: store, statements: statements}
}

// Begin implements Sampler.
func (l *LoadSampler) Begin(now time.Time) Signals {
	l.usage = usageMeter{}
	s := l.Sample(now)
	store := l.store()
	s.Commits = int64(store.CommitsPerSecond)
	s.CommitTime = time.Duration(s.Commits) * store.CommitMean
	return s
}

// Sample implements Sampler.
func (l *LoadSampler) Sample(now time.Time) Signals {
	store, usage := l.store(), l.usage.sample()
	s := Signals{
		Elapsed: now.Sub(l.last), Processors: runtime.NumCPU(),
		Statements: l.statements.Recent(now),
		Foreground: usage.Foreground, Builds: usage.Background.Run, Busy: usage.Busy,
		Commits: max(0, store.Commits-l.commits), CommitTime: max(0, store.CommitTime-l.commitTime),
	}
	latencies := l.statements.Latencies()
	s.Latencies, l.latencies = latencies.Since(l.latencies), latencies
	l.last, l.commits, l.commitTime = now, store.Commits, store.CommitTime
	return s
}
