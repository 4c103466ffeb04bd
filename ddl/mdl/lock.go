package mdl

import (
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/catalog"
)

var (
	// ErrSchemaChanged (8028) fails the commit of a transaction that has written
	// a table whose schema moved on, with the metadata lock off. The transaction
	// can be retried from its beginning.
	ErrSchemaChanged = dbterror.ClassDomain.NewStd(errno.ErrInfoSchemaChanged)
	// ErrTableGone (1146) is returned by Bind for a table that was dropped.
	ErrTableGone = dbterror.ClassSchema.NewStd(errno.ErrNoSuchTable)
)

// Owner describes the session whose transaction takes the lock. Its functions
// are called from any goroutine; each may be nil.
type Owner struct {
	ConnID  uint64
	Started time.Time
	// SQL returns the session's current or last statement. Nil is no text.
	SQL func() string
	// Idle returns how long the session has been without a running statement,
	// zero while it runs one. Nil is zero.
	Idle func() time.Duration
	// Kill ends the session, and with it the transaction. Nil if it cannot be
	// killed.
	Kill func()
	// KillIdle does what Kill does if Idle is at least the given time, and says
	// whether it did; afterwards the session must begin no statement. It returns
	// true at most once. Nil if the session is not to be ended for idleness.
	KillIdle func(atLeast time.Duration) bool
}

// Lock is the metadata lock of one transaction: the tables it has written, each
// at the schema version the transaction uses. A Lock is used by one goroutine at
// a time.
type Lock struct {
	m     *Manager
	owner Owner

	// tables is written under m.mu and read without it by the lock's own
	// goroutine.
	tables map[int64]*catalog.Table

	// The fields below are guarded by m.mu.

	// doomed says that an owner has gone on without waiting for this lock.
	doomed bool
	// inFlight says that the commit has passed CheckCommit.
	inFlight bool
	released bool
	// done is closed by Release; it exists only once somebody waits for it.
	done chan struct{}
}

// Bind returns the table as the transaction has to write it. The first call for
// a table binds the transaction to the table's current schema version, and later
// calls return the same. It fails with ErrTableGone if the table does not exist.
func (l *Lock) Bind(tableID int64) (*catalog.Table, error) {
	if t, ok := l.tables[tableID]; ok {
		return t, nil
	}
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.released {
		return nil, fmt.Errorf("mdl: bind of table %d after release", tableID)
	}
	t, ok := m.current(tableID)
	if !ok {
		return nil, ErrTableGone.FastGenByArgs("", fmt.Sprintf("(Table ID %d)", tableID))
	}
	if l.tables == nil {
		l.tables = make(map[int64]*catalog.Table, 1)
	}
	l.tables[tableID] = t
	holders := m.bound[tableID]
	if holders == nil {
		holders = make(map[*Lock]struct{}, 1)
		m.bound[tableID] = holders
	}
	holders[l] = struct{}{}
	return t, nil
}

// CheckCommit is to be called between taking the commit timestamp and making
// anything visible. It fails with ErrSchemaChanged if the transaction may not
// commit any more under the versions it is bound to; if it succeeds, owners wait
// for the end of the commit whether the metadata lock is on or off.
func (l *Lock) CheckCommit(_ uint64) error {
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.doomed {
		return ErrSchemaChanged.FastGenByArgs()
	}
	if !m.opts.Enabled() {
		for id, t := range l.tables {
			if now, ok := m.current(id); !ok || now.SchemaVersion != t.SchemaVersion {
				return ErrSchemaChanged.FastGenByArgs()
			}
		}
	}
	l.inFlight = true
	return nil
}

// Release gives up all bindings. It must be called once the transaction's Commit
// or Rollback has returned; further calls do nothing.
func (l *Lock) Release() {
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.released {
		return
	}
	l.released = true
	for id := range l.tables {
		delete(m.bound[id], l)
		if len(m.bound[id]) == 0 {
			delete(m.bound, id)
		}
	}
	if l.done != nil {
		close(l.done)
	}
}
