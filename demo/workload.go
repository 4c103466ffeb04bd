package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"

	"fastddl/sbtest"
)

// phase is a part of the demonstration.
type phase int

const (
	before phase = iota
	during
	after
	phases
)

// workload is the live load: threads that run transactions in a closed loop.
type workload struct {
	driver *sbtest.Driver
	now    phase
	spans  [phases]sbtest.Interval
	record *sbtest.Record // nil while it runs
}

func startWorkload(ctx context.Context, db *sql.DB, threads, rows int, perSecond float64) (*workload, error) {
	driver, err := sbtest.Start(ctx, sbtest.Options{
		Dial:    func(ctx context.Context) (sbtest.Session, error) { return sbtest.NewMySQLSession(ctx, db, sbtest.Text) },
		Threads: threads, MaxPerSecond: perSecond, Rows: rows, Seed: rand.Uint64(),
	})
	return &workload{driver: driver}, err
}

// enter ends the current phase and begins the next one.
func (w *workload) enter(p phase) {
	now := w.driver.Elapsed()
	w.spans[w.now].To, w.spans[p].From, w.now = now, now, p
}

// stop ends the load at once: a transaction that is cut off does not count.
// Stopping twice does nothing.
func (w *workload) stop() {
	if w.record != nil {
		return
	}
	w.spans[w.now].To = w.driver.Elapsed()
	w.record = w.driver.Stop(0)
}

// summaries are what clients saw in each phase. The load must have been stopped.
func (w *workload) summaries() (s [phases]sbtest.LatencySummary) {
	for p, span := range w.spans {
		s[p] = w.record.Summary(span)
	}
	return s
}

// failure is the error of a load in which a transaction failed other than by a
// retryable conflict, or in which nothing ran at all; errs are some of the errors.
func failure(s [phases]sbtest.LatencySummary, errs error) error {
	failed, ran := 0, 0
	for _, p := range s {
		failed += p.Failed
		ran += p.Completed
	}
	if failed > 0 {
		return fmt.Errorf("%d transactions failed, for example: %w", failed, errs)
	}
	if ran == 0 {
		return errors.New("the load ran no transaction")
	}
	return nil
}
