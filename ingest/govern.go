package ingest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/internal/errs"
)

// Sampler observes the machine and the foreground for the governor.
type Sampler interface {
	// Begin returns the signals to begin with, and Sample those since the call
	// before.
	Begin(now time.Time) flow.Signals
	Sample(now time.Time) flow.Signals
}

// governance samples while there are jobs, and keeps what the governor has
// decided.
type governance struct {
	globals *config.Globals
	// decision is nil while builds have everything.
	decision atomic.Pointer[flow.Decision]
	// statements are those that workers give way to one by one, and pacers the number
	// of workers so far.
	statements *flow.Meter
	pacers     atomic.Int64

	mu         sync.Mutex
	sampler    Sampler // nil does not govern
	controller flow.Controller
	jobs       int
	bus        *event.Bus // of the first of them
	end        func()     // of the sampling that is going on
}

// Govern lets builds give way to the foreground that s observes, and to each of
// the statements, unless fastddl_ddl_governor is OFF. It must be called before
// there are jobs.
func (r *Resources) Govern(s Sampler, statements *flow.Meter) {
	r.governance.mu.Lock()
	defer r.governance.mu.Unlock()
	r.governance.sampler, r.governance.statements = s, statements
}

// Governor is what builds may do now.
func (r *Resources) Governor() flow.Decision { return r.governance.now() }

func (g *governance) now() flow.Decision {
	if d := g.decision.Load(); d != nil {
		return *d
	}
	return flow.Full
}

func (g *governance) set(d flow.Decision) {
	if d == flow.Full {
		g.decision.Store(nil)
	} else {
		g.decision.Store(&d)
	}
}

// begin says that a job with the given events begins, and returns the function that says that it ends.
func (g *governance) begin(bus *event.Bus) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sampler == nil {
		return func() {}
	}
	if g.jobs++; g.jobs == 1 {
		g.bus = bus
		g.start()
	}
	return sync.OnceFunc(g.leave)
}

func (g *governance) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.jobs--; g.jobs == 0 {
		g.end()
	}
}

// start takes the first decision and has the others taken until g.end is called.
func (g *governance) start() {
	g.observe((*flow.Controller).Begin, g.sampler.Begin)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.run(ctx)
	}()
	g.end = func() {
		cancel()
		<-done
		g.set(flow.Full)
	}
}

func (g *governance) run(ctx context.Context) {
	ticker := time.NewTicker(flow.Interval)
	defer ticker.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			err := g.sample()
			if err != nil && !failed {
				g.bus.Emit(event.Retry{Op: "observe the foreground", Attempt: 1, Err: err})
			}
			failed = err != nil
		}
	}
}

// sample takes the next decision. If the sampler panics, the last one stands and
// builds go on; the first time in a row is reported.
func (g *governance) sample() (err error) {
	defer errs.Contain(&err)
	g.observe((*flow.Controller).Observe, g.sampler.Sample)
	return nil
}

// observe takes a decision, which counts if the governor is switched on. It has
// the controller to itself.
func (g *governance) observe(
	decide func(*flow.Controller, time.Time, flow.Signals) flow.Decision, sample func(time.Time) flow.Signals,
) {
	now := time.Now()
	decision := decide(&g.controller, now, sample(now))
	if !g.globals.Bool(config.Governor) {
		decision = flow.Full
	}
	g.set(decision)
}
