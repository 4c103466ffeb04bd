package mdl

import (
	"cmp"
	"slices"
	"time"

	"fastddl/event"
)

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
	// SQL is the session's current or last statement.
	SQL string
	// Idle is how long the session has run no statement; zero while it runs one.
	Idle time.Duration
	// Committing says that the transaction is about to end.
	Committing bool
	// Kill ends the transaction; nil if its session cannot be killed.
	Kill func()

	owner *Owner
}

// Blockers lists the transactions that DDL jobs wait for at this moment, by job,
// the oldest first.
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
		dst = append(dst, Blocker{
			JobID: w.jobID, TableID: w.tableID,
			DB: t.DB.Name.O, Table: t.Info.Name.O, SchemaVersion: t.SchemaVersion,
			ConnID: l.owner.ConnID, TxnStart: l.owner.Started, Age: now.Sub(l.owner.Started),
			Committing: l.inFlight, Kill: l.owner.Kill, owner: &l.owner,
		})
	}
	return dst
}

// finishBlockers sorts the blockers and asks their sessions what they do. It is
// called without m.mu, because sessions have locks of their own.
func finishBlockers(blockers []Blocker) {
	for i := range blockers {
		b := &blockers[i]
		if b.owner.SQL != nil {
			b.SQL = b.owner.SQL()
		}
		if b.owner.Idle != nil {
			b.Idle = b.owner.Idle()
		}
	}
	slices.SortFunc(blockers, func(x, y Blocker) int {
		return cmp.Or(cmp.Compare(x.JobID, y.JobID), x.TxnStart.Compare(y.TxnStart), cmp.Compare(x.ConnID, y.ConnID))
	})
}

// endIdle ends the sessions of the blockers that have been idle for too long. It
// is called without m.mu. Whether a session is still idle when it is ended only
// the session can say.
func (m *Manager) endIdle(blockers []Blocker) {
	limit := m.opts.IdleTimeout()
	if limit <= 0 {
		return
	}
	for _, b := range blockers {
		if b.owner.KillIdle == nil || !b.owner.KillIdle(limit) {
			continue
		}
		m.opts.Bus.Emit(event.IdleBlockerEnded{
			Job: event.Job{ID: b.JobID}, Schema: b.DB, Table: b.Table,
			ConnID: b.ConnID, Age: b.Age, Idle: b.Idle, SQL: b.SQL,
		})
	}
}
