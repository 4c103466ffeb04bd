package backup

import (
	"slices"
	"sync"
	"time"
)

// taskLife is how long a backup that has ended is shown, as long as TiDB shows one.
const taskLife = 30 * time.Minute

// States of tasks, in TiDB's words.
const (
	StateWait   = "Wait"
	StateBackup = "Backup"
)

// Task is a backup that runs or has ended lately.
type Task struct {
	ID uint64
	// Destination and Client are those of the request.
	Destination string
	Client      uint64
	// State is one of the above.
	State string
	// Percent of the bytes that are copied.
	Percent float64
	// Begun and Ended are zero before.
	Queued, Begun, Ended time.Time
	// Err is why it has failed.
	Err error
}

// tasks are the backups that are shown.
type tasks struct {
	mu   sync.Mutex
	last uint64
	all  []*task
}

// task is one of them.
type task struct {
	set   *tasks
	shown Task
	// total are the bytes to copy, done those that were.
	total, done int64
}

// add adds a backup, and removes those that ended long ago.
func (ts *tasks) add(req Request, now time.Time) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.forget(now)
	ts.last++
	t := &task{set: ts, shown: Task{ID: ts.last, Destination: req.Destination, Client: req.Client, State: StateWait, Queued: now}}
	ts.all = append(ts.all, t)
	return t
}

func (ts *tasks) forget(now time.Time) {
	ts.all = slices.DeleteFunc(ts.all, func(t *task) bool { return !t.shown.Ended.IsZero() && now.Sub(t.shown.Ended) > taskLife })
}

func (t *task) begin(now time.Time) {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	t.shown.State, t.shown.Begun = StateBackup, now
}

// copies says how many bytes are to be copied.
func (t *task) copies(total int64) {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	t.total = total
}

// copied adds bytes that were copied.
func (t *task) copied(n int64) {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	t.done += n
}

func (t *task) end(now time.Time, err error) {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	t.shown.Ended, t.shown.Err = now, err
}

// percent is how much of the backup is done.
func (t *task) percent() float64 {
	switch {
	case !t.shown.Ended.IsZero():
		return 100
	case t.total == 0:
		return 0
	}
	return 100 * float64(t.done) / float64(t.total)
}

// Tasks returns the backups that run, wait or have ended in the last half hour, the oldest first.
func (t *Taker) Tasks() []Task {
	ts := &t.tasks
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.forget(t.now())
	out := make([]Task, len(ts.all))
	for i, one := range ts.all {
		out[i] = one.shown
		out[i].Percent = one.percent()
	}
	return out
}
