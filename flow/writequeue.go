package flow

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"fastddl/internal/sleep"
)

// WriteSlice is how long writing goes on before the limits are looked at again:
// the longest that a new limit takes to be obeyed, and how much of the time that
// a timer came late is made up for.
const WriteSlice = 50 * time.Millisecond

// sliceBytes returns what may be written in one slice.
func sliceBytes(limit int64) int { return int(max(1, limit/int64(time.Second/WriteSlice))) }

// pace spaces out writes so that they keep to a speed. A write may begin when those
// before it are paid for.
type pace struct {
	speed   int64
	limiter *rate.Limiter
}

// until returns how long to wait before the next bytes may be written at a speed in
// bytes per second. Nothing waits for what was written at another speed.
func (p *pace) until(now time.Time, speed int64) time.Duration {
	if p.limiter == nil || p.speed != speed {
		p.speed, p.limiter = speed, rate.NewLimiter(rate.Limit(speed), sliceBytes(speed))
	}
	owed := -p.limiter.TokensAt(now)
	return time.Duration(owed / float64(speed) * float64(time.Second))
}

// write books n bytes, at most those of a slice.
func (p *pace) write(now time.Time, n int) { p.limiter.ReserveN(now, n) }

// WriteQueue lets the writes of all jobs pass at the speed of the node, in the
// order of start-time fair queueing: the job that has been given least for its
// weight comes first, so the speed is divided by weight between those that want
// to write, and one that does not leaves its part to the others.
type WriteQueue struct {
	limit func() int64

	mu      sync.Mutex
	pace    pace
	clock   float64 // start of the write that passed last
	waiting []*write
}

// NewWriteQueue returns the queue of a node that writes at a limit in bytes per second, 0 for none,
// which may change.
func NewWriteQueue(limit func() int64) *WriteQueue { return &WriteQueue{limit: limit} }

// Limit returns the limit in force.
func (q *WriteQueue) Limit() int64 { return q.limit() }

// queuePlace is what the queue remembers of a job: where its next write starts, in
// bytes by weight.
type queuePlace struct{ next float64 }

// write is a write that waits in the queue.
type write struct {
	start float64
	wake  chan struct{}
}

// pass returns when some of n bytes of a job may be written, and how many. A job
// has one call at a time.
func (q *WriteQueue) pass(ctx context.Context, f *queuePlace, weight int64, n int) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &write{start: max(q.clock, f.next), wake: make(chan struct{}, 1)}
	q.waiting = append(q.waiting, w)
	defer q.removeLocked(w)
	for {
		limit := q.limit()
		if limit == 0 {
			return n, ctx.Err()
		}
		now := time.Now()
		delay := q.pace.until(now, limit)
		first := q.firstLocked() == w
		if first && delay <= 0 {
			n = min(n, sliceBytes(limit))
			q.pace.write(now, n)
			q.clock, f.next = w.start, w.start+float64(n)/float64(weight)
			return n, ctx.Err()
		}
		if !first {
			delay = WriteSlice
		}
		q.mu.Unlock()
		waited := sleep.Unless(ctx, min(delay, WriteSlice), w.wake)
		q.mu.Lock()
		if !waited {
			return 0, ctx.Err()
		}
	}
}

func (q *WriteQueue) firstLocked() *write {
	return slices.MinFunc(q.waiting, func(a, b *write) int { return cmp.Compare(a.start, b.start) })
}

// removeLocked takes a write out of the queue and wakes the one that is first
// now.
func (q *WriteQueue) removeLocked(w *write) {
	q.waiting = slices.DeleteFunc(q.waiting, func(x *write) bool { return x == w })
	if len(q.waiting) > 0 {
		select {
		case q.firstLocked().wake <- struct{}{}:
		default:
		}
	}
}
