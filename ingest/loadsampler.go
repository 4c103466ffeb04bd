package ingest

import (
	"runtime"
	"time"

	"fastddl/flow"
	"fastddl/kv"
)

// LoadSampler observes this process, the machine and a store. It implements
// Sampler.
type LoadSampler struct {
	store      kv.Store
	statements *flow.Meter
	usage      flow.UsageMeter

	last       time.Time
	commits    int64
	commitTime time.Duration
}

// NewLoadSampler returns a sampler of a store and of the statements of a server's
// clients.
func NewLoadSampler(store kv.Store, statements *flow.Meter) *LoadSampler {
	return &LoadSampler{store: store, statements: statements}
}

// Begin implements Sampler.
func (l *LoadSampler) Begin(now time.Time) flow.Signals {
	l.usage = flow.UsageMeter{}
	s := l.Sample(now)
	store := l.store.LoadSignals()
	s.Commits = int64(store.CommitsPerSecond)
	s.CommitTime = time.Duration(s.Commits) * store.CommitMean
	return s
}

// Sample implements Sampler.
func (l *LoadSampler) Sample(now time.Time) flow.Signals {
	store, usage := l.store.LoadSignals(), l.usage.Sample()
	s := flow.Signals{
		Elapsed: now.Sub(l.last), Processors: runtime.NumCPU(),
		Statements: l.statements.Recent(now),
		Foreground: flow.Threads(usage.Foreground), Builds: usage.Background.Run, Busy: usage.Busy,
		Commits: max(0, store.Commits-l.commits), CommitTime: max(0, store.CommitTime-l.commitTime),
		L0Sublevels: store.L0Sublevels, CompactionDebtBytes: store.CompactionDebtBytes, WriteStalled: store.WriteStalled,
	}
	l.last, l.commits, l.commitTime = now, store.Commits, store.CommitTime
	return s
}
