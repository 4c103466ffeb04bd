package flow

import (
	"context"
	"time"

	"fastddl/internal/sleep"
	"fastddl/internal/stage"
)

const (
	// minPause is the shortest pause that is worth its timer, maxPause how
	// long one lasts before the decision is looked at again.
	minPause = time.Millisecond
	maxPause = 20 * time.Millisecond
)

// Pacer keeps one worker to the share of the time that the decision gives it. It
// must be used by the worker's goroutine only.
type Pacer struct {
	job *Job
	// yields says that the worker waits for statements. On a thread of low priority it need not: the kernel gives them the processors. In
	// another process it does, where it would else run in each gap between two statements, and take their caches.
	yields bool
	task   BackgroundTask
	// beside is the number of statements beside which the worker goes on.
	beside int
	clock  *stage.Clock         // nil charges pauses to nothing
	spent  func() time.Duration // that the worker has worked or waited
	// last is the time of the last call, if known; worked and paused are of the time
	// that was not made up for.
	last           time.Duration
	known          bool
	worked, paused time.Duration
}

// NewPacer returns the pacer of a worker that has a thread of its own; what counts
// is its processor time, where that is known. Pauses are charged to the clock as idle; it may be nil.
func (j *Job) NewPacer(clock *stage.Clock) *Pacer {
	p := j.NewWallPacer(nil)
	p.clock = clock
	if stage.ThreadCPU() > 0 {
		p.spent = stage.ThreadCPU
	}
	return p
}

// NewWallPacer returns the pacer of a worker without a thread of its own, of which
// all time counts. It waits for statements by sleep; nil keeps the thread meanwhile.
func (j *Job) NewWallPacer(sleep func(time.Duration)) *Pacer {
	begin := time.Now()
	cores := Cores()
	statements := j.governor.statements
	return &Pacer{
		job:    j,
		yields: !leaveOutYield && (!hasPriorities || statements.isElsewhere()),
		task:   BackgroundTask{Meter: statements, MinShare: MinShare, Sleep: sleep},
		// With one statement less than there are processors, one worker goes on, with
		// two less another.
		beside: cores - 1 - int(j.governor.pacers.Add(1))%cores,
		spent:  func() time.Duration { return time.Since(begin) },
	}
}

// Pace is called between two batches. It pauses for as long as the worker has to,
// and fails only if ctx ends.
func (p *Pacer) Pace(ctx context.Context) error {
	p.yield()
	decision := p.job.governor.decision.Load()
	if decision == nil {
		p.known, p.worked, p.paused = false, 0, 0
		return nil
	}
	now := p.spent()
	if p.known {
		p.worked += now - p.last
	}
	p.last, p.known = now, true
	if p.due(decision.Share) < minPause {
		return nil
	}
	if p.clock != nil {
		defer p.clock.Enter(p.clock.Enter(stage.Idle))
	}
	return p.pause(ctx)
}

// yield leaves the processors to statements that run now.
func (p *Pacer) yield() {
	if !p.yields || !p.job.governor.enabled() {
		return
	}
	beside := p.beside + p.job.governor.Decision().OffCPU
	if p.task.Meter.Executing() <= beside {
		return
	}
	if p.clock != nil {
		defer p.clock.Enter(p.clock.Enter(stage.Idle))
	}
	waited := p.task.Yield(beside)
	p.paused += waited
	p.job.stats.add(Statements, waited)
}

// due returns how long the worker has to pause for what it has worked.
func (p *Pacer) due(share float64) time.Duration {
	return time.Duration(float64(p.worked)*(1-share)/share) - p.paused
}

func (p *Pacer) pause(ctx context.Context) error {
	decision := p.job.governor.Decision()
	for due := p.due(decision.Share); due > 0; due = p.due(decision.Share) {
		start := time.Now()
		if !sleep.For(ctx, min(due, maxPause)) {
			return ctx.Err()
		}
		took := time.Since(start)
		p.paused += took
		p.job.stats.add(decision.Reason, took)
		decision = p.job.governor.Decision()
	}
	// What a timer came late is made up for at the next pause.
	p.paused = min(-p.due(decision.Share), maxPause)
	p.worked, p.last = 0, p.spent()
	return nil
}
