package flow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fastddl/internal/errs"
)

// Sampler observes the machine and the foreground for the governor.
type Sampler interface {
	// Begin returns the signals to begin with, and Sample those since the call
	// before.
	Begin(now time.Time) Signals
	Sample(now time.Time) Signals
}

// Governor samples while there are jobs, and keeps the decision that they obey. All
// methods but Observe may be called concurrently.
type Governor struct {
	enabled func() bool
	// target returns what 99 of 100 statements are to take at most; 0 is no target.
	target func() time.Duration
	// decision is nil while builds have everything.
	decision atomic.Pointer[Decision]
	// statements are those that workers yield to one by one, and pacers the number
	// of workers so far.
	statements *StatementMeter
	pacers     atomic.Int64

	mu           sync.Mutex
	sampler      Sampler // nil does not govern
	controller   Controller
	jobs         int
	sampleFailed func(error) // of the first of them
	end          func()      // of the sampling that is going on
}

// NewGovernor returns a governor whose jobs have everything while enabled returns false,
// which is asked at each decision and each time a worker may have to yield.
func NewGovernor(enabled func() bool) *Governor {
	return &Governor{enabled: enabled, target: func() time.Duration { return 0 }}
}

// Target lets jobs yield so much that 99 of 100 statements take no longer than target returns; 0 is no target. It is asked
// at each decision, and must be set before there are jobs.
func (g *Governor) Target(target func() time.Duration) { g.target = target }

// Observe lets jobs yield to the foreground that s observes, and to each of the
// statements. It must be called before there are jobs; without it they have everything.
func (g *Governor) Observe(s Sampler, statements *StatementMeter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sampler, g.statements = s, statements
}

// Impose puts a decision into force that another process has taken; nothing may be observed here.
func (g *Governor) Impose(d Decision) { g.set(d) }

// Decision returns the decision in force.
func (g *Governor) Decision() Decision {
	if d := g.decision.Load(); d != nil {
		return *d
	}
	return Full
}

// Outlook returns the decision that a job would be under that began now, with no more of the time than statements leave, to which its
// workers will yield. It takes none: without jobs it only observes.
func (g *Governor) Outlook() (d Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d = g.Decision()
	if g.sampler == nil || !g.enabled() {
		return d
	}
	if g.jobs == 0 && g.foresee(&d) != nil {
		return Full // as long as no sample succeeds
	}
	left := 1 - g.statements.Recent(time.Now()).Seconds()/float64(Cores())
	if left = max(minInitialShare, left); d.Foreground && left < d.Share {
		d.Share, d.Reason = left, Statements
	}
	return d
}

// foresee takes the first decision of a time with jobs, without keeping it. A panic of the sampler is an error. The caller holds mu.
func (g *Governor) foresee(d *Decision) (err error) {
	defer errs.Contain(&err)
	now := time.Now()
	signals := g.sampler.Begin(now)
	signals.Target = g.target()
	controller := g.controller
	*d = controller.Begin(now, signals)
	return nil
}

func (g *Governor) set(d Decision) {
	if d == Full {
		g.decision.Store(nil)
	} else {
		g.decision.Store(&d)
	}
}

// begin counts a job, whose sampleFailed is called if sampling fails, and returns the
// function that ends it.
func (g *Governor) begin(sampleFailed func(error)) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sampler == nil {
		return func() {}
	}
	if g.jobs++; g.jobs == 1 {
		g.sampleFailed = sampleFailed
		g.start()
	}
	return sync.OnceFunc(g.leave)
}

func (g *Governor) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.jobs--; g.jobs == 0 {
		g.end()
	}
}

// start takes the first decision and has the others taken until g.end is called.
func (g *Governor) start() {
	g.step((*Controller).Begin, g.sampler.Begin)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.run(ctx)
	}()
	g.end = func() {
		cancel()
		<-done
		g.set(Full)
	}
}

func (g *Governor) run(ctx context.Context) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			err := g.sample()
			if err != nil && !failed {
				g.sampleFailed(err)
			}
			failed = err != nil
		}
	}
}

// sample takes the next decision. If the sampler panics, the last one stands and
// builds go on; the first time in a row is reported.
func (g *Governor) sample() (err error) {
	defer errs.Contain(&err)
	g.step((*Controller).Observe, g.sampler.Sample)
	return nil
}

// step takes a decision, which counts if the governor is enabled. It has the
// controller to itself.
func (g *Governor) step(
	decide func(*Controller, time.Time, Signals) Decision, sample func(time.Time) Signals,
) {
	now := time.Now()
	signals := sample(now)
	signals.Target = g.target()
	decision := decide(&g.controller, now, signals)
	if !g.enabled() {
		decision = Full
	}
	g.set(decision)
}
