package mechanisms

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
	"fastddl/benchmarks/usage"
	"fastddl/internal/sleep"
	"fastddl/sbtest"
)

const (
	// stopTime is what the server gets to write its buffers to disk.
	stopTime = 5 * time.Minute
	// settleTime is what it gets to end its compactions after the table was loaded.
	settleTime = time.Minute
	// stopGrace is what transactions that have arrived get to end.
	stopGrace = 30 * time.Second
)

// Run measures. It returns what was measured also with an error, such as the one of a context that ended.
func Run(ctx context.Context, opts Options) (res *result.Flow, err error) {
	opts.EnsureDefaults()
	if err := errors.Join(opts.Validate(), opts.prepare()); err != nil {
		return nil, err
	}
	machine, err := result.ThisMachine()
	if err != nil {
		return nil, err
	}
	r := &run{Options: opts, begin: time.Now(), res: &result.Flow{Machine: machine, Setup: opts.setup()}}
	r.index, _ = peer.CaseNamed(opts.Case) // Validate knows it
	for _, v := range variants() {
		if len(opts.Variants) == 0 || slices.Contains(opts.Variants, v.Name) {
			r.variants = append(r.variants, v)
		}
	}
	if r.dir, err = os.MkdirTemp(opts.Dir, "fastddl-mechanisms-"); err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	r.say("seed %d", opts.Seed)
	err = r.measure(ctx)
	r.list()
	r.res.Complete = err == nil && !r.cutShort
	return r.res, errors.Join(err, r.Save(r.res))
}

func (o *Options) setup() result.FlowSetup {
	return result.FlowSetup{Rows: o.Rows, Case: o.Case, Shares: o.Shares, Rounds: o.Rounds, Builds: o.Builds, Threads: o.Threads, Seed: o.Seed}
}

// run is one run.
type run struct {
	Options
	index    peer.Case
	begin    time.Time
	dir      string
	variants []*variant
	res      *result.Flow
	cutShort bool // for want of time
}

func (r *run) say(format string, args ...any) {
	elapsed := time.Since(r.begin).Round(time.Second)
	r.Progress(fmt.Sprintf("[%3d:%02d] ", int(elapsed.Minutes()), int(elapsed.Seconds())%60) + fmt.Sprintf(format, args...))
}

// list puts the variants into the result, with what is known of them now.
func (r *run) list() {
	r.res.Variants = nil
	for _, v := range r.variants {
		r.res.Variants = append(r.res.Variants, v.FlowVariant)
	}
}

// measure fills the store, and visits all variants in each round.
func (r *run) measure(ctx context.Context) error {
	if err := r.withServer(ctx, nil, r.fill); err != nil {
		return err
	}
	if err := r.withServer(ctx, nil, r.measureCapacity); err != nil {
		return err
	}
	order := rand.New(rand.NewPCG(r.Seed, 0))
	var last time.Duration
	for round := 1; round <= r.Rounds; round++ {
		if left := r.MaxTime - time.Since(r.begin); last > left {
			r.say("the time left is too short for round %d", round)
			r.cutShort = true
			return nil
		}
		start := time.Now()
		for _, i := range order.Perm(len(r.variants)) {
			v := r.variants[i]
			if v.Skipped != "" {
				continue
			}
			loads := order.Perm(len(r.Shares))
			r.say("round %d of %d: %s", round, r.Rounds, v.Name)
			if err := r.withServer(ctx, v.environment(), func(ctx context.Context, s Server) error { return r.visit(ctx, s, v, loads, round) }); err != nil {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
		}
		last = time.Since(start)
	}
	return nil
}

// withServer starts the server over the store of the run, and stops it after fn.
func (r *run) withServer(ctx context.Context, environment []string, fn func(context.Context, Server) error) error {
	s := r.NewServer(peer.Options{Dir: r.dir, FastDDL: r.FastDDL, FastDDLEnv: environment, Rows: r.Rows, Cores: r.res.Machine.Cores, MemoryBytes: r.res.Machine.MemoryBytes})
	defer s.Kill()
	if err := s.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := fn(ctx, s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return s.Stop(ctx)
}

// fill loads the table.
func (r *run) fill(ctx context.Context, s Server) (err error) {
	if r.res.Version, err = s.Version(ctx); err != nil {
		return fmt.Errorf("ask for the version: %w", err)
	}
	r.say("loading %d rows", r.Rows)
	if err := s.Load(ctx, sbtest.Generator{Rows: r.Rows, Seed: r.Seed}, func(int) {}); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return usage.WaitIdle(ctx, s.PID(), settleTime)
}

// warmUp brings a server that was started into the state in which it is measured: the table read, one index built and
// dropped again.
func (r *run) warmUp(ctx context.Context, s Server) error {
	if err := s.Warm(ctx); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := r.addIndex(ctx, s); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := s.DropIndex(ctx, r.index); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return usage.WaitIdle(ctx, s.PID(), r.IdleTime)
}

func (r *run) addIndex(ctx context.Context, s Server) error {
	ctx, cancel := context.WithTimeout(ctx, r.StatementTime)
	defer cancel()
	return s.AddIndex(ctx, r.index)
}

// measureCapacity finds the transactions per second that the server can do.
func (r *run) measureCapacity(ctx context.Context, s Server) error {
	if err := r.warmUp(ctx, s); err != nil {
		return err
	}
	sum, err := r.beside(ctx, s, 0, func(*sbtest.Driver) error { return sleep.Wait(ctx, r.CapacityTime) })
	if err != nil {
		return fmt.Errorf("measure the capacity: %w", err)
	}
	if sum.Completed == 0 {
		return fmt.Errorf("measure the capacity: no transaction ended in %v", r.CapacityTime)
	}
	r.res.Capacity = sum.PerSecond
	r.say("capacity %.0f transactions/s, p99 %.1f ms", sum.PerSecond, sum.P99)
	return nil
}
