package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
	"fastddl/benchmarks/usage"
	"fastddl/internal/sleep"
	"fastddl/sbtest"
)

const (
	// stopGrace is what transactions that have arrived get to end.
	stopGrace = 30 * time.Second
	// drainTime bounds the wait for what has piled up meanwhile.
	drainTime  = 30 * time.Second
	drainEvery = 100 * time.Millisecond
	// bucket is the resolution of throughput over time.
	bucket = 250 * time.Millisecond
)

// measureUnderLoad measures the server's systems beside each load.
func (r *runner) measureUnderLoad(ctx context.Context, h *host, round int) error {
	if h.info.Capacity == 0 {
		if r.outOfTime() {
			return nil
		}
		if err := r.measureCapacity(ctx, h); err != nil {
			return err
		}
	}
	for _, share := range r.Shares {
		for i := range h.systems {
			s := h.systems[(i+round-1)%len(h.systems)]
			if !r.due(h, s, round) {
				continue
			}
			if err := s.Prepare(ctx); err != nil {
				return fmt.Errorf("prepare %s: %w", s.Name(), err)
			}
			for _, name := range r.LoadCases {
				if r.outOfTime() {
					return nil
				}
				if err := r.underLoad(ctx, h, s, name, share, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *runner) underLoad(ctx context.Context, h *host, s peer.System, name string, share float64, round int) error {
	c, err := peer.CaseNamed(name)
	if err != nil {
		return err
	}
	m := loadedRun{
		runner: r, system: s, c: c,
		run: result.Run{System: s.Name(), Rows: h.rows, Case: name, Round: round, Load: &result.Load{Share: share, PerSecond: share * h.info.Capacity}},
	}
	if err := usage.WaitIdle(ctx, h.PID(), r.IdleTime); err != nil {
		return err
	}
	if m.driver, err = sbtest.Start(ctx, r.loadOptions(h, m.run.Load.PerSecond)); err != nil {
		return err
	}
	err = m.measure(ctx)
	end := m.driver.Elapsed()
	record := m.driver.Stop(stopGrace)
	if err != nil {
		return err
	}
	m.summarise(record, end)
	return r.keep(m.run)
}

// loadedRun is a run beside a load.
type loadedRun struct {
	*runner
	system peer.System
	c      peer.Case
	driver *sbtest.Driver
	run    result.Run

	before sbtest.Interval
	adding []sbtest.Interval
}

// measure lets the load run, and adds and drops the indexes beside it. Its error
// is one of the server; one of the statement is in the run.
func (m *loadedRun) measure(ctx context.Context) error {
	if err := sleep.Wait(ctx, m.RampUp); err != nil {
		return err
	}
	m.before.From = m.driver.Elapsed()
	if err := sleep.Wait(ctx, m.Before); err != nil {
		return err
	}
	m.before.To = m.driver.Elapsed()
	var during time.Duration
	for repeat := 0; repeat < m.MaxRepeats && during < m.During && m.run.Failed == ""; repeat++ {
		took, err := m.addAndDrop(ctx)
		if err != nil {
			return err
		}
		during += took
	}
	return nil
}

func (m *loadedRun) addAndDrop(ctx context.Context) (time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, m.StatementTime)
	defer cancel()
	adding := sbtest.Interval{From: m.driver.Elapsed()}
	err := m.system.AddIndex(limited, m.c)
	adding.To = m.driver.Elapsed()
	took := adding.To - adding.From
	if err != nil {
		m.run.Failed = err.Error()
	} else {
		m.adding = append(m.adding, adding)
		m.run.Seconds = append(m.run.Seconds, took.Seconds())
	}
	if err := m.settle(ctx); err != nil {
		return 0, err
	}
	if err := m.system.DropIndex(ctx, m.c); err != nil {
		return 0, fmt.Errorf("drop the indexes of %s: %w", m.c.Name, err)
	}
	return took, m.settle(ctx)
}

// settle waits until the load is back to its pace.
func (m *loadedRun) settle(ctx context.Context) error {
	if err := sleep.Wait(ctx, m.Pause); err != nil {
		return err
	}
	for end := time.Now().Add(drainTime); m.driver.Backlog() > int64(m.Threads) && time.Now().Before(end); {
		if err := sleep.Wait(ctx, drainEvery); err != nil {
			return err
		}
	}
	return nil
}

func (m *loadedRun) summarise(record *sbtest.Record, end time.Duration) {
	l, s := m.run.Load, m.system.Name()
	l.Before, l.During = record.Summary(m.before), record.Summary(m.adding...)
	if err := record.Err(); err != nil {
		l.Errors = errors.Join(errors.New("transactions failed"), err).Error()
		m.say("%s under %.0f%%: %v", s, 100*l.Share, l.Errors)
	}
	if m.run.Failed != "" {
		m.say("%s under %.0f%%: %s: failed: %s", s, 100*l.Share, m.c.Name, m.run.Failed)
		return
	}
	if m.run.Round == 1 {
		l.Timeline, l.BucketSeconds = record.Timeline(bucket, end), bucket.Seconds()
		for _, a := range m.adding {
			l.Adding = append(l.Adding, [2]float64{a.From.Seconds(), a.To.Seconds()})
		}
	}
	m.say("%s under %.0f%% (%.0f/s): %s: %.2f s; transactions/s %.1f -> %.1f, p99 %.1f -> %.1f ms", s, 100*l.Share, l.PerSecond, m.c.Name,
		m.run.Seconds[0], l.Before.PerSecond, l.During.PerSecond, l.Before.P99, l.During.P99)
}
