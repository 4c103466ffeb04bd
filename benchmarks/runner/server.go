package runner

import (
	"context"
	"fmt"
	"time"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/usage"
	"fastddl/internal/sleep"
	"fastddl/sbtest"
)

const (
	// stopTime is what a server gets to write its buffers to disk.
	stopTime = 5 * time.Minute
	// loadReport is how often a load reports its progress.
	loadReport = 10 * time.Second
)

// fill makes the store of a server and its table, and stops it.
func (r *runner) fill(ctx context.Context, h *host) (err error) {
	r.say("%s: starting, loading %d rows", h.Name(), h.rows)
	if err := h.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if h.info.Version, err = h.Version(ctx); err != nil {
		return fmt.Errorf("ask for the version: %w", err)
	}
	start, reported := time.Now(), time.Now()
	err = h.Load(ctx, sbtest.Generator{Rows: h.rows, Seed: r.Seed}, func(rows int) {
		if time.Since(reported) > loadReport {
			reported = time.Now()
			r.say("%s: %d of %d rows", h.Name(), rows, h.rows)
		}
	})
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	h.info.LoadSeconds = time.Since(start).Seconds()
	r.say("%s: loaded in %.1f s; stopping", h.Name(), h.info.LoadSeconds)
	r.remember(h)
	return r.stop(ctx, h)
}

func (r *runner) stop(ctx context.Context, h *host) error {
	if err := usage.WaitIdle(ctx, h.PID(), r.IdleTime); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return h.Stop(ctx)
}

// visit measures what is due on a server in a round.
func (r *runner) visit(ctx context.Context, h *host, round int) error {
	r.say("%d rows, round %d of %d: %s: starting and warming up", h.rows, round, r.Rounds, h.Name())
	if err := r.warmUp(ctx, h); err != nil {
		return err
	}
	for i := range h.systems {
		s := h.systems[(i+round-1)%len(h.systems)]
		if !r.due(h, s, round) {
			continue
		}
		if err := r.measureAlone(ctx, h, s, round); err != nil {
			return err
		}
	}
	if h.smallest && !r.NoLoad {
		if err := r.measureUnderLoad(ctx, h, round); err != nil {
			return err
		}
	}
	return r.stop(ctx, h)
}

// warmUp starts a server, and brings it into the state in which it is measured:
// the table read, one index built and dropped again, nothing left to do.
func (r *runner) warmUp(ctx context.Context, h *host) error {
	if err := h.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := h.Warm(ctx); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	first := peer.Cases()[0]
	s := h.quickest()
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	if err := s.AddIndex(ctx, first); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := s.DropIndex(ctx, first); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return nil
}

// quickest is a system that is not slow, if there is one.
func (h *host) quickest() peer.System {
	for _, s := range h.systems {
		if !s.Traits().Slow {
			return s
		}
	}
	return h.systems[0]
}

// measureCapacity finds the transactions per second that the server can do.
func (r *runner) measureCapacity(ctx context.Context, h *host) error {
	d, err := sbtest.Start(ctx, r.loadOptions(h, 0))
	if err != nil {
		return err
	}
	err = sleep.Wait(ctx, r.RampUp)
	from := d.Elapsed()
	if err == nil {
		err = sleep.Wait(ctx, r.CapacityTime)
	}
	to := d.Elapsed()
	record := d.Stop(stopGrace)
	if err != nil {
		return err
	}
	if err := record.Err(); err != nil {
		return fmt.Errorf("measure the capacity: %w", err)
	}
	sum := record.Summary(sbtest.Interval{From: from, To: to})
	if sum.Completed == 0 {
		return fmt.Errorf("measure the capacity: no transaction ended in %v", r.CapacityTime)
	}
	h.info.Capacity = sum.PerSecond
	r.remember(h)
	r.say("%s: capacity %.0f transactions/s, p99 %.1f ms", h.Name(), sum.PerSecond, sum.P99)
	return nil
}

func (r *runner) loadOptions(h *host, perSecond float64) sbtest.Options {
	return sbtest.Options{Dial: h.Session, Threads: r.Threads, PerSecond: perSecond, Rows: h.rows, Seed: r.Seed}
}
