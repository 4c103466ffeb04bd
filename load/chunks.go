package load

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"fastddl/load/rows"
)

// queue hands chunks to workers in the order of the source, and takes back what they did not finish. It decides how many
// workers there may be and when all have to stop, and does nothing itself.
type queue struct {
	mu      sync.Mutex
	waiting []chunk
	workers int // alive
	limit   int // workers that may be alive
	stopped bool
	due     bool // all stop, but each round reads something
	begun   bool // a chunk was handed out
}

// chunk is a part of the source, and where it stands among all.
type chunk struct {
	at int
	rows.Chunk
}

// newQueue returns a queue for limit workers, which it counts as alive.
func newQueue(chunks []rows.Chunk, limit int) *queue {
	q := &queue{limit: limit, workers: limit}
	for i, c := range chunks {
		q.waiting = append(q.waiting, chunk{i, c})
	}
	return q
}

// setLimit changes how many workers there may be, and returns how many are to be started, which it counts as alive. A queue
// without workers has none started: a round that is over.
func (q *queue) setLimit(n int, start func(workers int)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
	if q.stopped || q.due || q.workers == 0 {
		return
	}
	if more := min(n-q.workers, len(q.waiting)); more > 0 {
		q.workers += more
		start(more)
	}
}

// take hands out a chunk. Without one the worker ends, and must not call again.
func (q *queue) take(ctx context.Context) (c chunk, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ctx.Err() != nil || q.stopped || q.due && q.begun || q.workers > q.limit || len(q.waiting) == 0 {
		q.workers--
		return chunk{}, false
	}
	q.begun = true
	c = q.waiting[0]
	q.waiting = q.waiting[1:]
	return c, true
}

// yields says that a worker that is in a chunk gives back what is left of it.
func (q *queue) yields() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped || q.due || q.workers > q.limit
}

// giveBack takes what a worker has left of a chunk.
func (q *queue) giveBack(c chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, _ := slices.BinarySearchFunc(q.waiting, c, func(a, b chunk) int { return cmp.Compare(a.at, b.at) })
	q.waiting = slices.Insert(q.waiting, at, c)
}

// end makes all workers end where they are, when at least one of them has read something.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due = true
}

// stop makes all workers end where they are.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
}

// left returns what no worker has read, when all have ended.
func (q *queue) left() []rows.Chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := make([]rows.Chunk, len(q.waiting))
	for i, c := range q.waiting {
		left[i] = c.Chunk
	}
	return left
}
