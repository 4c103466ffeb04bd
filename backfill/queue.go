package backfill

import (
	"bytes"
	"context"
	"slices"
	"sync"
)

// queue hands tasks to workers, and takes back what they did not finish. It
// decides, but does nothing itself: how many workers there may be, when a
// worker shares its task with an idle one, and when all have to stop.
type queue struct {
	mu      sync.Mutex
	changed *sync.Cond

	tasks   []task          // waiting, in key order
	held    map[*claim]bool // what the workers have
	workers int             // alive
	limit   int             // workers that may be alive
	idle    int             // waiting in take
	stopped bool            // no more tasks are handed out
}

// claim is what a worker has left of a task.
type claim struct{ rest task }

// newQueue returns a queue for limit workers, which it counts as alive.
func newQueue(tasks []task, limit int) *queue {
	q := &queue{tasks: slices.Clone(tasks), held: make(map[*claim]bool), limit: limit, workers: limit}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// setLimit changes how many workers there may be and returns how many more
// should be started, which it counts as alive.
func (q *queue) setLimit(n int) (start int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
	q.changed.Broadcast()
	if q.stopped || q.workers == 0 || (len(q.tasks) == 0 && q.workers == q.idle) {
		return 0 // there is nothing left for them
	}
	start = max(0, n-q.workers)
	q.workers += start
	return start
}

// take hands out a task, waiting while there is none but others still work and
// may share theirs. The worker ends its claim by release. Without a task the
// worker ends and must not call again.
func (q *queue) take(ctx context.Context) (c *claim, ok bool) {
	wake := context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
	defer wake()

	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if ctx.Err() != nil || q.stopped || q.workers > q.limit {
			break
		}
		if len(q.tasks) > 0 {
			c := &claim{q.tasks[0]}
			q.tasks = q.tasks[1:]
			q.held[c] = true
			return c, true
		}
		if q.idle+1 == q.workers {
			break // everybody waits, so nothing will come
		}
		q.idle++
		q.changed.Wait()
		q.idle--
	}
	q.workers--
	q.changed.Broadcast()
	return nil, false
}

// verdict is what a worker does after a batch.
type verdict int

const (
	proceed verdict = iota
	// yield: give the rest of the task back and ask again.
	yield
	// share: give back the second half of the rest.
	share
)

// judge says how a worker that is in a task goes on.
func (q *queue) judge() verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.stopped || q.workers > q.limit:
		return yield
	case q.idle > 0 && len(q.tasks) == 0:
		return share
	default:
		return proceed
	}
}

// keep records what a worker has left of its task.
func (q *queue) keep(c *claim, rest task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.rest = rest
}

// release ends a claim and gives back what was not done of it.
func (q *queue) release(c *claim, rest ...task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, c)
	for _, t := range rest {
		at, _ := slices.BinarySearchFunc(q.tasks, t, func(a, b task) int { return bytes.Compare(a.Start, b.Start) })
		q.tasks = slices.Insert(q.tasks, at, t)
	}
	q.changed.Broadcast()
}

// stop makes all workers end after the current batch.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.changed.Broadcast()
}

// remaining returns what is left to do, in key order: the tasks that wait and
// what the workers have left.
func (q *queue) remaining() []task {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := slices.Clone(q.tasks)
	for c := range q.held {
		left = append(left, c.rest)
	}
	sortTasks(left)
	return left
}
