package flow

import "time"

// LoadSampler observes this process and the statements of a server's clients. It implements Sampler.
type LoadSampler struct {
	statements *StatementMeter
	threads    threadMeter

	last      time.Time
	latencies Latencies
}

// NewLoadSampler returns a sampler of the statements of a server's clients.
func NewLoadSampler(statements *StatementMeter) *LoadSampler {
	return &LoadSampler{statements: statements}
}

// Begin implements Sampler.
func (l *LoadSampler) Begin(now time.Time) Signals {
	l.threads = threadMeter{}
	return l.Sample(now)
}

// Sample implements Sampler.
func (l *LoadSampler) Sample(now time.Time) Signals {
	s := Signals{Elapsed: now.Sub(l.last), Statements: l.statements.Recent(now), Foreground: l.threads.sample()}
	latencies := l.statements.Latencies()
	s.Latencies, l.latencies = latencies.Since(l.latencies), latencies
	l.last = now
	return s
}
