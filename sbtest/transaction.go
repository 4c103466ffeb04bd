package sbtest

import (
	"context"
	"math/rand/v2"
)

// Session is one connection. It is used by one goroutine at a time.
type Session interface {
	// Run executes a statement and reads its whole result.
	Run(ctx context.Context, s Statement, args ...any) error
	// Retryable reports whether err asks to run the whole transaction again, as
	// deadlocks and write conflicts do.
	Retryable(err error) bool
	Close() error
}

const (
	pointSelects = 10
	rangeSize    = 100
)

// transaction runs sysbench's oltp_read_write once, with IDs that are equally
// likely. On an error it has rolled back.
func transaction(ctx context.Context, s Session, rng *rand.Rand, rows int) error {
	if err := s.Run(ctx, Begin); err != nil {
		return err
	}
	err := statements(ctx, s, rng, rows)
	if err == nil {
		err = s.Run(ctx, Commit)
	}
	if err != nil {
		_ = s.Run(ctx, Rollback) // the first error is what counts
	}
	return err
}

func statements(ctx context.Context, s Session, rng *rand.Rand, rows int) error {
	id := func() int { return 1 + rng.IntN(rows) }
	for range pointSelects {
		if err := s.Run(ctx, PointSelect, id()); err != nil {
			return err
		}
	}
	for _, query := range []Statement{RangeSelect, SumSelect, OrderSelect, DistinctSelect} {
		first := id()
		if err := s.Run(ctx, query, first, first+rangeSize-1); err != nil {
			return err
		}
	}
	if err := s.Run(ctx, UpdateK, id()); err != nil {
		return err
	}
	if err := s.Run(ctx, UpdateC, C(rng), id()); err != nil {
		return err
	}
	again := id()
	if err := s.Run(ctx, Delete, again); err != nil {
		return err
	}
	return s.Run(ctx, Insert, again, id(), C(rng), Pad(rng))
}
