package mdl

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"fastddl/catalog"
)

// reportInterval is how often a waiting owner reports whom it waits for.
const reportInterval = time.Second

// Manager keeps the metadata locks of all transactions of this process.
type Manager struct {
	// current returns the newest version of a table.
	current func(tableID int64) (*catalog.Table, bool)
	// enabled says whether owners wait (true) or condemn (false).
	enabled func() bool

	mu sync.Mutex
	// bound holds, for each table, the locks that are bound to it.
	bound map[int64]map[*Lock]struct{}
	// waits holds the calls of Wait that have not returned, for Blockers.
	waits map[*wait]struct{}
}

// wait is one call of Manager.Wait.
type wait struct {
	jobID, tableID, version int64
}

// Blocker is a transaction that a DDL job waits for.
type Blocker struct {
	JobID   int64
	TableID int64
	// DB and Table name the table as the transaction knows it.
	DB, Table string
	// SchemaVersion is the version the transaction writes the table under.
	SchemaVersion int64
	ConnID        uint64
	TxnStart      time.Time
	Age           time.Duration
	SQL           string
	// Kill ends the transaction; nil if its session cannot be killed.
	Kill func()

	sql func() string
}

// NewManager returns a manager for the tables of cat. enabled is asked at every
// wait and commit; nil means always.
func NewManager(cat *catalog.Catalog, enabled func() bool) *Manager {
	return newManager(func(id int64) (*catalog.Table, bool) { return cat.Current().TableByID(id) }, enabled)
}

func newManager(current func(int64) (*catalog.Table, bool), enabled func() bool) *Manager {
	if enabled == nil {
		enabled = func() bool { return true }
	}
	return &Manager{
		current: current,
		enabled: enabled,
		bound:   make(map[int64]map[*Lock]struct{}),
		waits:   make(map[*wait]struct{}),
	}
}

// Begin returns the metadata lock of a transaction, bound to nothing yet. It
// must be released.
func (m *Manager) Begin(o Owner) *Lock { return &Lock{m: m, owner: o} }

// Wait returns when no transaction can commit a write to the table under a
// version below the given one, which must have been published before. With the
// metadata lock on it waits for the transactions that have written under an
// older version; with it off it condemns them and waits only for commits in
// flight. onWait, if not nil, is told whom it waits for: at once when there is
// somebody, then about once a second. Wait fails only when ctx ends.
func (m *Manager) Wait(ctx context.Context, jobID, tableID, version int64, onWait func([]Blocker)) error {
	w := &wait{jobID: jobID, tableID: tableID, version: version}
	m.mu.Lock()
	m.waits[w] = struct{}{}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.waits, w)
		m.mu.Unlock()
	}()

	// tick is needed only when there is somebody to wait for.
	var tick *time.Ticker
	for {
		done, blockers := m.step(w)
		if done == nil {
			return ctx.Err()
		}
		finishBlockers(blockers)
		if tick == nil {
			tick = time.NewTicker(reportInterval)
			defer tick.Stop()
		}
		if onWait != nil {
			onWait(blockers)
		}
		for reported := false; !reported; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
				// Also looks again whether the metadata lock is still on.
				reported = true
			case <-done:
				if done, _ = m.step(w); done == nil {
					return ctx.Err()
				}
			}
		}
	}
}

// step returns the channel of some lock that w still has to wait for, with all
// that it waits for, or nil. With the metadata lock off it condemns the locks
// whose commit is not in flight.
func (m *Manager) step(w *wait) (<-chan struct{}, []Blocker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	on := m.enabled()
	var first *Lock
	for l := range m.bound[w.tableID] {
		if l.tables[w.tableID].SchemaVersion >= w.version || l.doomed {
			continue
		}
		if !on && !l.inFlight {
			l.doomed = true
			continue
		}
		if first == nil {
			first = l
		}
	}
	if first == nil {
		return nil, nil
	}
	if first.done == nil {
		first.done = make(chan struct{})
	}
	return first.done, m.blockersLocked(w, nil)
}

// Blockers lists the transactions that DDL jobs wait for at this moment, oldest
// first.
func (m *Manager) Blockers() []Blocker {
	m.mu.Lock()
	var all []Blocker
	for w := range m.waits {
		all = m.blockersLocked(w, all)
	}
	m.mu.Unlock()
	finishBlockers(all)
	return all
}

func (m *Manager) blockersLocked(w *wait, dst []Blocker) []Blocker {
	now := time.Now()
	for l := range m.bound[w.tableID] {
		t := l.tables[w.tableID]
		if t.SchemaVersion >= w.version || l.doomed {
			continue
		}
		b := Blocker{
			JobID: w.jobID, TableID: w.tableID,
			DB: t.DB.Name.O, Table: t.Info.Name.O, SchemaVersion: t.SchemaVersion,
			ConnID: l.owner.ConnID, TxnStart: l.owner.Started, Age: now.Sub(l.owner.Started),
			Kill: l.owner.Kill, sql: l.owner.SQL,
		}
		dst = append(dst, b)
	}
	return dst
}

// finishBlockers sorts the blockers and asks for their statements. It is called
// without m.mu, because sessions have locks of their own.
func finishBlockers(b []Blocker) {
	for i := range b {
		if b[i].sql != nil {
			b[i].SQL = b[i].sql()
		}
	}
	slices.SortFunc(b, func(x, y Blocker) int {
		return cmp.Or(cmp.Compare(x.JobID, y.JobID), x.TxnStart.Compare(y.TxnStart), cmp.Compare(x.ConnID, y.ConnID))
	})
}
