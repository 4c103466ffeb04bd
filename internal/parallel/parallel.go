package parallel

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"fastddl/internal/errs"
)

// Do calls fn for 0 to n-1, in that order, on at most limit() goroutines at a
// time but at least on one. The limit is read again whenever a call of fn
// returns. The first error ends the context of all calls, and Do returns it when
// they have returned. If ctx ends, no further call begins and Do returns its
// error. The goroutines are started by Do and end with it; a panic in one of them
// is an error, an *errs.PanicError.
func Do(ctx context.Context, n int, limit func() int, fn func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	p := &pool{n: n, limit: limit}
	p.work = func() error {
		for {
			i, start, ok := p.next()
			if start {
				g.Go(p.work)
			}
			if !ok {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := call(ctx, i, fn); err != nil {
				return err
			}
		}
	}
	p.workers = 1
	g.Go(p.work)
	return g.Wait()
}

func call(ctx context.Context, i int, fn func(ctx context.Context, i int) error) (err error) {
	defer errs.Contain(&err)
	return fn(ctx, i)
}

type pool struct {
	n     int
	limit func() int
	work  func() error

	mu      sync.Mutex
	taken   int
	workers int
}

// next gives a goroutine its next item, or none when it should end, and says
// whether another goroutine should be started, which is counted already.
func (p *pool) next() (i int, start, ok bool) {
	limit := max(1, p.limit())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == p.n || p.workers > limit {
		p.workers--
		return 0, false, false
	}
	i = p.taken
	p.taken++
	if p.workers < limit && p.taken < p.n {
		p.workers++
		start = true
	}
	return i, start, true
}
