package event

import (
	"fmt"
	"sync"
	"time"

	"github.com/pingcap/log"
	"go.uber.org/zap"

	"fastddl/internal/invariants"
)

// Event is something that happened in a DDL job. Its String is one line for
// the log.
type Event interface {
	fmt.Stringer
	// JobID is the job the event belongs to, 0 if none.
	JobID() int64
}

// Listener receives events. It must not block and must not call back into the
// component that emits.
type Listener func(Event)

// Bus hands every event to all listeners, in the emitting goroutine.
// The zero value is ready to use.
type Bus struct {
	mu        sync.RWMutex
	next      int
	listeners map[int]Listener
}

// Subscribe adds a listener and returns the function that removes it.
func (b *Bus) Subscribe(l Listener) (cancel func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners == nil {
		b.listeners = make(map[int]Listener)
	}
	id := b.next
	b.next++
	b.listeners[id] = l
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, id)
	}
}

// Emit calls every listener with e. A nil bus drops it.
func (b *Bus) Emit(e Event) {
	if b == nil {
		return
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, l := range b.listeners {
		deliver(l, e)
	}
}

// deliver calls a listener with an event. Listeners only show what a build does: a panic in one is no error
// of the build.
func deliver(l Listener, e Event) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if violation, ok := p.(invariants.Violation); ok {
			panic(violation)
		}
		log.Error("panic in a listener to index builds", zap.Int64("job", e.JobID()), zap.String("event", fmt.Sprintf("%T", e)),
			zap.Any("panic", p), zap.Stack("stack"))
	}()
	l(e)
}

// Job names the job an event belongs to; it is embedded in every event.
type Job struct{ ID int64 }

// JobID implements Event.
func (j Job) JobID() int64 { return j.ID }

// JobQueued: a job was written to the queue.
type JobQueued struct {
	Job
	Type, Schema, Table, Query string
}

func (e JobQueued) String() string {
	return fmt.Sprintf("job %d queued: %s on %s.%s", e.ID, e.Type, e.Schema, e.Table)
}

// JobStateChanged: a job went from one state to another (queueing, running,
// rollingback, cancelling, paused, synced, cancelled, rollback done).
type JobStateChanged struct {
	Job
	Schema, Table string
	// Indexes are the names of the indexes that are built, with + between them.
	Indexes  string
	From, To string
	Err      error
	// Rows is how many rows the job has read so far. Took is how long it was under way, 0 before it has ended.
	Rows int64
	Took time.Duration
}

func (e JobStateChanged) String() string {
	s := fmt.Sprintf("job %d on %s.%s %s -> %s", e.ID, e.Schema, e.Table, e.From, e.To)
	if e.Took > 0 {
		s += fmt.Sprintf(" after %s and %d rows", e.Took.Round(time.Millisecond), e.Rows)
	}
	if e.Err != nil {
		s += fmt.Sprintf(": %v", e.Err)
	}
	return s
}

// SchemaStateChanged: an index or column of the job reached a schema state
// (none, delete only, write only, write reorganization, public) with the
// schema version at which it did.
type SchemaStateChanged struct {
	Job
	State         string
	SchemaVersion int64
}

func (e SchemaStateChanged) String() string {
	return fmt.Sprintf("job %d schema state %s at version %d", e.ID, e.State, e.SchemaVersion)
}

// LockWait: the job waits for transactions that have written under an older
// schema version. Blockers names some of them.
type LockWait struct {
	Job
	Waited   time.Duration
	Blockers []string
}

func (e LockWait) String() string {
	return fmt.Sprintf("job %d has waited %s for the metadata lock, held by %v", e.ID, e.Waited.Round(time.Millisecond), e.Blockers)
}

// Waiting: the job has waited long enough for something that people may want to look
// at it. It is emitted once in a wait, even if its reason changes.
type Waiting struct {
	Job
	Schema, Table string
	Reason        string
	Waited        time.Duration
	// ForResources says that the job waits for shared resources, and not for a transaction or another job.
	ForResources bool
}

func (e Waiting) String() string {
	return fmt.Sprintf("job %d on %s.%s has waited %s for: %s", e.ID, e.Schema, e.Table, e.Waited.Round(time.Millisecond), e.Reason)
}

// WaitEnded: a wait that was [Waiting] is over, or its job is.
type WaitEnded struct {
	Job
	Schema, Table string
	Reason        string
	Waited        time.Duration
}

func (e WaitEnded) String() string {
	return fmt.Sprintf("job %d on %s.%s waits no more, after %s, for: %s", e.ID, e.Schema, e.Table, e.Waited.Round(time.Millisecond), e.Reason)
}

// Command: a user has asked something of the job, one of several perhaps, by a statement.
type Command struct {
	Job
	// User is as user@host.
	User      string
	ConnID    uint64
	Statement string
	// Err is why the job does not do it; nil if it does.
	Err error
}

func (e Command) String() string {
	outcome := "done"
	if e.Err != nil {
		outcome = e.Err.Error()
	}
	return fmt.Sprintf("job %d was asked by %s, connection %d: %.*q: %s", e.ID, e.User, e.ConnID, maxShownSQL, e.Statement, outcome)
}

// IdleBlockerEnded: the session of a transaction that the job waited for was
// ended, because it had run no statement for Idle, or, if that is 0, was open for
// too long. SQL is its last statement.
type IdleBlockerEnded struct {
	Job
	Schema, Table string
	ConnID        uint64
	Age, Idle     time.Duration
	SQL           string
}

// maxShownSQL is the number of bytes of a statement that an event's text shows.
const maxShownSQL = 256

func (e IdleBlockerEnded) String() string {
	state := "ran a statement"
	if e.Idle > 0 {
		state = "was idle for " + e.Idle.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("job %d ended connection %d, whose transaction of %s held the metadata lock of %s.%s and %s; last statement: %.*q",
		e.ID, e.ConnID, e.Age.Round(time.Millisecond), e.Schema, e.Table, state, maxShownSQL, e.SQL)
}

// StageChanged: the backfill entered a stage (scan, merge, ingest, verify).
type StageChanged struct {
	Job
	Stage string
}

func (e StageChanged) String() string { return fmt.Sprintf("job %d stage %s", e.ID, e.Stage) }

// Progress: so many rows of the table have been scanned and encoded by the
// backfill, of an estimated total; the entries of RowsImported are in the store.
type Progress struct {
	Job
	Stage                             string
	RowsDone, RowsTotal, RowsImported int64
	RowsPerSecond                     float64
	// StageDone is how much of the current stage is done, 0 to 1.
	StageDone float64
	// RowsBefore are those of RowsDone that were done before the execution began: by an earlier attempt or process.
	RowsBefore int64
	// BytesRead is the stored size of the rows that the execution has read, by the store's estimate, and
	// BytesSorted the size of the keys and values of their entries.
	BytesRead, BytesSorted int64
	// Workers is how many workers the execution has; 0 if other nodes do the work.
	Workers int
	// WriteSpeed is what it may write now in bytes per second, 0 without a limit, and WriteLimit the limit's name.
	WriteSpeed int64
	WriteLimit string
}

func (e Progress) String() string {
	return fmt.Sprintf("job %d %d of about %d rows, %.0f rows/s", e.ID, e.RowsDone, e.RowsTotal, e.RowsPerSecond)
}

// RangeDone: one range of the table was scanned.
type RangeDone struct {
	Job
	Rows    int64
	Elapsed time.Duration
}

func (e RangeDone) String() string {
	return fmt.Sprintf("job %d range done: %d rows in %s", e.ID, e.Rows, e.Elapsed.Round(time.Millisecond))
}

// Ingested: files were imported into the store.
type Ingested struct {
	Job
	Files   int
	Bytes   uint64
	Elapsed time.Duration
}

func (e Ingested) String() string {
	return fmt.Sprintf("job %d ingested %d files, %d bytes in %s", e.ID, e.Files, e.Bytes, e.Elapsed.Round(time.Millisecond))
}

// Throttled: the job was slowed down, and why.
type Throttled struct {
	Job
	Reason string
	For    time.Duration
	// Yields says that its workers have yielded to statements, and not waited for a write limit.
	Yields bool
}

func (e Throttled) String() string {
	return fmt.Sprintf("job %d throttled for %s: %s", e.ID, e.For.Round(time.Millisecond), e.Reason)
}

// CheckpointDropped: the stored progress of a build cannot be read, so that the build begins again.
type CheckpointDropped struct {
	Job
	Err error
}

func (e CheckpointDropped) String() string {
	return fmt.Sprintf("job %d begins its build again, what it has stored of its progress cannot be read: %v", e.ID, e.Err)
}

// Retry: an operation failed and is tried again.
type Retry struct {
	Job
	Op      string
	Attempt int
	Err     error
}

func (e Retry) String() string {
	return fmt.Sprintf("job %d retries %s (attempt %d): %v", e.ID, e.Op, e.Attempt, e.Err)
}
