package backfill

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"fastddl/backfill/keyrange"
)

// queue hands tasks to workers, and takes back what they did not finish. It
// decides, but does nothing itself: how many workers there may be, when a
// worker shares its task with an idle one, and when all have to stop.
type queue struct {
	mu      sync.Mutex
	changed *sync.Cond

	tasks   []keyrange.Weighted // waiting, in key order
	held    map[*claim]bool     // what the workers have
	workers int                 // alive
	limit   int                 // workers that may be alive
	idle    int                 // waiting in take
	fed     bool                // more tasks may come
	stopped bool                // no more tasks are handed out
}

// claim is a task that a worker has.
type claim struct{ task keyrange.Weighted }

// wakeAtEnd wakes all goroutines that wait when ctx ends, until it is called off.
func (q *queue) wakeAtEnd(ctx context.Context) (callOff func()) {
	stop := context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
	return func() { stop() }
}

// newQueue returns a queue for limit workers, which it counts as alive.
func newQueue(tasks []keyrange.Weighted, limit int) *queue {
	q := &queue{tasks: slices.Clone(tasks), held: make(map[*claim]bool), limit: limit, workers: limit}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// setLimit changes how many workers there may be. It has more of them started, which it counts
// as alive, if there is something left for them: before any of those that are can end, so that
// a goroutine that waits for all of them waits for these too.
func (q *queue) setLimit(n int, start func(workers int)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
	q.changed.Broadcast()
	if q.stopped || q.workers == 0 || q.exhausted(q.idle) {
		return
	}
	if more := n - q.workers; more > 0 {
		q.workers += more
		start(more)
	}
}

// take hands out a task, waiting while there is none but others still work and
// may share theirs. The worker ends its claim by release. Without a task the
// worker ends and must not call again.
func (q *queue) take(ctx context.Context) (c *claim, ok bool) {
	defer q.wakeAtEnd(ctx)()
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
			if len(q.tasks) == 0 {
				q.changed.Broadcast() // who feeds waits for that
			}
			return c, true
		}
		if q.exhausted(q.idle + 1) {
			break
		}
		q.idle++
		q.changed.Wait()
		q.idle--
	}
	q.workers--
	q.changed.Broadcast()
	return nil, false
}

// exhausted says that nothing will be handed out when so many workers wait: all of them do,
// and the queue is not fed.
func (q *queue) exhausted(idle int) bool {
	return len(q.tasks) == 0 && idle == q.workers && !q.fed
}

// awaitEmpty waits until all tasks are handed out; it returns false if the queue has stopped, no
// worker is left, or ctx has ended.
func (q *queue) awaitEmpty(ctx context.Context) bool {
	defer q.wakeAtEnd(ctx)()
	q.mu.Lock()
	defer q.mu.Unlock()
	ended := func() bool { return q.stopped || q.workers == 0 || ctx.Err() != nil }
	for len(q.tasks) > 0 && !ended() {
		q.changed.Wait()
	}
	return !ended()
}

// feed adds tasks. A queue is fed until endFeed; only then do workers end when all of them
// wait.
func (q *queue) feed(tasks []keyrange.Weighted) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.putBackLocked(tasks)
}

func (q *queue) endFeed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fed = false
	q.changed.Broadcast()
}

// action is what a worker does after a batch.
type action int

const (
	proceed action = iota
	// yield: give the rest of the task back and ask again.
	yield
	// share: give back the second half of the rest.
	share
)

// decide returns how a worker that is in a task goes on.
func (q *queue) decide() action {
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

// release ends a claim and gives back what was not done of it.
func (q *queue) release(c *claim, rest ...keyrange.Weighted) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, c)
	q.putBackLocked(rest)
}

func (q *queue) putBackLocked(tasks []keyrange.Weighted) {
	for _, t := range tasks {
		at, _ := slices.BinarySearchFunc(q.tasks, t, func(a, b keyrange.Weighted) int { return bytes.Compare(a.Start, b.Start) })
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
func (q *queue) remaining() []keyrange.Weighted {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := slices.Clone(q.tasks)
	for c := range q.held {
		left = append(left, c.task)
	}
	keyrange.Sort(left)
	return left
}
