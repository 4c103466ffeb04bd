package mdl

import (
	"context"
	"sync"
	"time"

	"fastddl/catalog"
	"fastddl/event"
)

// Options configures a Manager.
type Options struct {
	// Enabled says whether owners wait for transactions (true) or condemn them
	// (false). It is asked at every wait and commit. Default: always true.
	Enabled func() bool
	// IdleTimeout is how long the session of a transaction that is waited for
	// may run no statement before it is ended; zero or less is for ever. It is
	// asked at least once per ReportInterval. Default: zero.
	IdleTimeout func() time.Duration
	// Bus receives event.IdleBlockerEnded. Nil drops it.
	Bus *event.Bus
	// ReportInterval is how often a waiting owner reports whom it waits for, and
	// looks for idle ones. Default one second.
	ReportInterval time.Duration
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	if o.Enabled == nil {
		o.Enabled = func() bool { return true }
	}
	if o.IdleTimeout == nil {
		o.IdleTimeout = func() time.Duration { return 0 }
	}
	if o.ReportInterval == 0 {
		o.ReportInterval = time.Second
	}
}

// Manager keeps the metadata locks of all transactions of this process.
type Manager struct {
	// current returns the newest version of a table.
	current func(tableID int64) (*catalog.Table, bool)
	opts    Options

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

// NewManager returns a manager for the tables of cat.
func NewManager(cat *catalog.Catalog, opts Options) *Manager {
	return newManager(func(id int64) (*catalog.Table, bool) { return cat.Current().TableByID(id) }, opts)
}

func newManager(current func(int64) (*catalog.Table, bool), opts Options) *Manager {
	opts.EnsureDefaults()
	return &Manager{
		current: current,
		opts:    opts,
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
// somebody, then once per ReportInterval. At the same moments sessions that have
// been idle for IdleTimeout are ended. Wait fails only when ctx ends.
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
		m.endIdle(blockers)
		if tick == nil {
			tick = time.NewTicker(m.opts.ReportInterval)
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
	on := m.opts.Enabled()
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
