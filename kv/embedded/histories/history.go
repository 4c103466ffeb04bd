package histories

import (
	"sync"
	"time"
)

// Outcome is what a client knows of how its transaction ended.
type Outcome uint8

// The outcomes of a transaction.
const (
	// Unknown says that the transaction may have committed or not, or may still do so.
	Unknown Outcome = iota
	Committed
	Aborted
)

// OpKind is what an operation does.
type OpKind uint8

// The kinds of operations.
const (
	Read OpKind = iota
	Append
)

// Op is an operation of a transaction.
type Op struct {
	Kind OpKind
	Key  string
	// Value is what was appended. It is used once for each key.
	Value int
	// List is what was read.
	List []int
	// View is the timestamp that was read at; 0 is unknown.
	View uint64
	// Locked says that from the reading to the end of the transaction no other could append to the list.
	Locked bool
	// Begun is when the reading began, at any rate before its timestamp was taken; Ended when it was done. Both count
	// from the beginning of the history.
	Begun, Ended time.Duration
}

// Txn is a transaction as its client has seen it.
type Txn struct {
	// Name says how it was run, for reports.
	Name string
	// Pessimistic says that reads without a lock have a view of their own. Otherwise all of the transaction happens at
	// one view, that of its start.
	Pessimistic bool
	// Newest says that it has only read, each list as it was newest, without a timestamp.
	Newest bool
	// Start and Commit are its timestamps; 0 is unknown.
	Start, Commit uint64
	Begun, Ended  time.Duration
	Outcome       Outcome
	Ops           []Op
}

// Recorder collects the transactions of many clients.
type Recorder struct {
	zero time.Time
	mu   sync.Mutex
	txns []*Txn
}

// NewRecorder returns a recorder of a history that begins now.
func NewRecorder() *Recorder { return &Recorder{zero: time.Now()} }

// Now is the time of the history, by a clock that does not jump.
func (r *Recorder) Now() time.Duration { return time.Since(r.zero) }

// Begin records a transaction. It is called before the transaction takes its timestamp, and the caller fills in what
// happens to it from one goroutine.
func (r *Recorder) Begin(name string) *Txn {
	t := &Txn{Name: name, Begun: r.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.txns = append(r.txns, t)
	return t
}

// Txns returns what was recorded, when all clients are done.
func (r *Recorder) Txns() []*Txn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.txns
}
