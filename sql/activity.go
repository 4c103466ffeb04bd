package sql

import (
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/sql/sqlerr"
)

// activity knows whether a session runs a statement. Unlike the session it may
// be used by any goroutine: by those who wait for the session's transaction.
type activity struct {
	mu      sync.Mutex
	running bool
	// ended is when the last statement ended.
	ended time.Time
	// killed says that the session must not begin a statement any more.
	killed bool
}

// begin fails if the session was killed for its idleness.
func (a *activity) begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.killed {
		return sqlerr.New(errno.ErrQueryInterrupted)
	}
	a.running = true
	return nil
}

func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running, a.ended = false, time.Now()
}

// idle returns how long no statement has been running, zero while one runs.
func (a *activity) idle() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.idleLocked()
}

func (a *activity) idleLocked() time.Duration {
	if a.running || a.ended.IsZero() {
		return 0
	}
	return time.Since(a.ended)
}

// killIdle lets no further statement begin if the session has been idle for at
// least the given time. It says whether it did; it does so once.
func (a *activity) killIdle(atLeast time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.killed || a.running || a.idleLocked() < atLeast {
		return false
	}
	a.killed = true
	return true
}
