package peer

import (
	"context"
	"io"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"fastddl/sbtest"
)

// loadInChunks cuts the rows into streams of so many blocks and hands each to
// copy, on the given number of goroutines at a time. It reports how many rows are
// there after each.
func loadInChunks(
	ctx context.Context, g sbtest.Generator, blocks, parallel int, loaded func(rows int), copy func(ctx context.Context, rows io.Reader) error,
) error {
	var total atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for first := 0; first < g.Blocks() && ctx.Err() == nil; first += blocks {
		last := min(first+blocks, g.Blocks())
		group.Go(func() error {
			if err := copy(ctx, g.Reader(first, last)); err != nil {
				return err
			}
			n := 0
			for b := first; b < last; b++ {
				n += g.BlockRows(b)
			}
			loaded(int(total.Add(int64(n))))
			return nil
		})
	}
	return group.Wait()
}
