package ingest

import (
	"context"
	"time"

	"fastddl/config"
	"fastddl/flow"
	"fastddl/internal/sleep"
	"fastddl/internal/stage"
)

const (
	// leastPause is the shortest pause that is worth its timer, longestPause how
	// long one lasts before the decision is looked at again.
	leastPause   = time.Millisecond
	longestPause = 20 * time.Millisecond
	// maxHold is for how long files are kept from a store that is overloaded.
	maxHold = 5 * time.Second
)

// Pacer keeps one worker to the share of the time that the governor gives it. It
// must be used by the worker's goroutine only.
type Pacer struct {
	share *Share
	guest flow.Guest
	// beside is the number of statements beside which the worker goes on.
	beside int
	clock  *stage.Clock         // nil charges pauses to nobody
	spent  func() time.Duration // that the worker has worked or waited
	// last is the time of the last call, if known; worked and paused are of the time
	// that was not made up for.
	last           time.Duration
	known          bool
	worked, paused time.Duration
}

// NewPacer returns the pacer of a worker that has a thread of its own; what counts
// is its processor time, where that is known. Pauses are charged to the clock as idle; it may be nil.
func (s *Share) NewPacer(clock *stage.Clock) *Pacer {
	p := s.newWallPacer()
	p.clock = clock
	if stage.ThreadCPU() > 0 {
		p.spent = stage.ThreadCPU
	}
	return p
}

// newWallPacer returns the pacer of a worker without a thread of its own, of which
// all time counts.
func (s *Share) newWallPacer() *Pacer {
	begin := time.Now()
	g := &s.r.governance
	cores := flow.Cores()
	return &Pacer{
		share: s,
		guest: flow.Guest{Meter: g.statements, Least: flow.Floor},
		// With one statement less than there are processors, one worker goes on, with
		// two less another.
		beside: cores - 1 - int(g.pacers.Add(1))%cores,
		spent:  func() time.Duration { return time.Since(begin) },
	}
}

// Pace is called between two batches. It pauses for as long as the worker has to,
// and fails only if ctx ends.
func (p *Pacer) Pace(ctx context.Context) error {
	p.yield()
	decision := p.share.r.governance.decision.Load()
	if decision == nil {
		p.known, p.worked, p.paused = false, 0, 0
		return nil
	}
	now := p.spent()
	if p.known {
		p.worked += now - p.last
	}
	p.last, p.known = now, true
	if p.due(decision.Share) < leastPause {
		return nil
	}
	if p.clock != nil {
		defer p.clock.Enter(p.clock.Enter(stage.Idle))
	}
	return p.pause(ctx)
}

// yield leaves the processors to statements that run now.
func (p *Pacer) yield() {
	if !p.share.r.globals.Bool(config.Governor) {
		return
	}
	beside := p.beside + p.share.r.Governor().Asleep
	if p.guest.Meter.Executing() <= beside {
		return
	}
	if p.clock != nil {
		defer p.clock.Enter(p.clock.Enter(stage.Idle))
	}
	waited := p.guest.Yield(beside)
	p.paused += waited
	p.share.gaveWay.add(p.share, flow.Statements, waited)
}

// due is how long the worker has to pause for what it has worked.
func (p *Pacer) due(share float64) time.Duration {
	return time.Duration(float64(p.worked)*(1-share)/share) - p.paused
}

func (p *Pacer) pause(ctx context.Context) error {
	decision := p.share.r.Governor()
	for due := p.due(decision.Share); due > 0; due = p.due(decision.Share) {
		start := time.Now()
		if !sleep.For(ctx, min(due, longestPause)) {
			return ctx.Err()
		}
		took := time.Since(start)
		p.paused += took
		p.share.gaveWay.add(p.share, decision.Reason, took)
		decision = p.share.r.Governor()
	}
	// What a timer came late is made up for at the next pause.
	p.paused = min(-p.due(decision.Share), longestPause)
	p.worked, p.last = 0, p.spent()
	return nil
}

// BeforeImport waits while the store is so loaded that it should not get any
// files, but not for long: builds come to an end.
func (s *Share) BeforeImport(ctx context.Context) error {
	for start := time.Now(); time.Since(start) < maxHold; {
		decision := s.r.Governor()
		if !decision.HoldImports {
			return nil
		}
		if !sleep.For(ctx, longestPause) {
			return ctx.Err()
		}
		s.gaveWay.add(s, decision.Reason, longestPause)
	}
	return nil
}
