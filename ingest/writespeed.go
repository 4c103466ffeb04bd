package ingest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"fastddl/internal/sleep"
)

// writeSlice is how long writing goes on before the limits are looked at again:
// the longest that a new limit takes to be obeyed, and how much of the time that
// a timer came late is made up for.
const writeSlice = 50 * time.Millisecond

// sliceBytes is what may be written in one slice.
func sliceBytes(limit int64) int { return int(max(1, limit/int64(time.Second/writeSlice))) }

// pace spaces out writes so that they keep to a speed.
type pace struct {
	next  time.Time
	speed int64
}

// until is how long to wait before the next bytes may be written at a speed in
// bytes per second. Nobody waits for what was written at another speed.
func (p *pace) until(now time.Time, speed int64) time.Duration {
	if earliest := now.Add(-writeSlice); p.next.Before(earliest) || p.speed != speed {
		p.next, p.speed = earliest, speed
	}
	return p.next.Sub(now)
}

// write books n bytes.
func (p *pace) write(n int) {
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.speed) * float64(time.Second)))
}

// writeQueue lets the writes of all jobs pass at the speed of the node, in the
// order of start-time fair queueing: whoever has been given least for its
// weight comes first, so the speed is divided by weight between those that want
// to write, and one that does not leaves its part to the others.
type writeQueue struct {
	// limit is the speed in bytes per second; 0 is none.
	limit func() int64

	mu      sync.Mutex
	pace    pace
	clock   float64 // start of the write that passed last
	waiting []*write
}

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
func (q *writeQueue) pass(ctx context.Context, f *queuePlace, weight int64, n int) (int, error) {
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
		delay := q.pace.until(time.Now(), limit)
		first := q.firstLocked() == w
		if first && delay <= 0 {
			n = min(n, sliceBytes(limit))
			q.pace.write(n)
			q.clock, f.next = w.start, w.start+float64(n)/float64(weight)
			return n, ctx.Err()
		}
		if !first {
			delay = writeSlice
		}
		q.mu.Unlock()
		waited := sleep.Unless(ctx, min(delay, writeSlice), w.wake)
		q.mu.Lock()
		if !waited {
			return 0, ctx.Err()
		}
	}
}

func (q *writeQueue) firstLocked() *write {
	return slices.MinFunc(q.waiting, func(a, b *write) int { return cmp.Compare(a.start, b.start) })
}

// removeLocked takes a write out of the queue and wakes the one that is first
// now.
func (q *writeQueue) removeLocked(w *write) {
	q.waiting = slices.DeleteFunc(q.waiting, func(x *write) bool { return x == w })
	if len(q.waiting) > 0 {
		select {
		case q.firstLocked().wake <- struct{}{}:
		default:
		}
	}
}
