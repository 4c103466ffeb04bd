package api

import (
	"context"
	"sync"
	"time"
)

const (
	// freeFailures of one user from one address, and freeFailuresOfHost of any users from one, slow nothing down.
	freeFailures, freeFailuresOfHost = 3, 30
	// The next ones wait, each twice as long as the one before.
	firstWait, longestWait = time.Second, time.Minute
	// Failures are forgotten attemptsFor after the last.
	attemptsFor = 10 * time.Minute
	// maxAttempts bounds what is remembered.
	maxAttempts = 10_000
)

// attempts are log-ins that have failed. They slow down the next ones of the same user from the same address, and of all from an address
// that tries many.
type attempts struct {
	now func() time.Time

	mu  sync.Mutex
	all map[attempt]*failures
	// turns are held while log-ins from an address are checked.
	turns map[string]*turn
}

// turn has an element while a log-in from an address is checked, and waiters.
type turn struct {
	held  chan struct{}
	users int
}

// attempt identifies failed log-ins: by user and address, or by address alone.
type attempt struct{ user, host string }

type failures struct {
	n    int
	last time.Time
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, all: make(map[attempt]*failures), turns: make(map[string]*turn)}
}

// enter waits for the turn of an address: its log-ins are checked one after the other. Those at the same time would not know of each other's
// failures.
func (a *attempts) enter(ctx context.Context, host string) (leave func(), err error) {
	a.mu.Lock()
	t := a.turns[host]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		a.turns[host] = t
	}
	t.users++
	a.mu.Unlock()
	forget := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(a.turns, host)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
}

// wait returns how long a user at an address has to wait until the next log-in. The users of this machine, of whom a proxy may be one, do not
// slow down each other.
func (a *attempts) wait(user, host string, local bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := a.waitOf(attempt{user, host}, freeFailures)
	if !local {
		wait = max(wait, a.waitOf(attempt{"", host}, freeFailuresOfHost))
	}
	return wait
}

func (a *attempts) waitOf(who attempt, free int) time.Duration {
	f := a.all[who]
	if f == nil || f.n < free {
		return 0
	}
	wait := longestWait
	if doublings := f.n - free; doublings < 6 {
		wait = min(wait, firstWait<<doublings)
	}
	return max(0, wait-a.now().Sub(f.last))
}

// failed notes a failure.
func (a *attempts) failed(user, host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, who := range []attempt{{user, host}, {"", host}} {
		f := a.all[who]
		if f == nil {
			if len(a.all) >= maxAttempts {
				a.forgetOldest()
			}
			f = &failures{}
			a.all[who] = f
		}
		f.n++
		f.last = a.now()
	}
}

// forgetOldest makes room. The caller holds mu.
func (a *attempts) forgetOldest() {
	var oldest attempt
	var at time.Time
	for who, f := range a.all {
		if at.IsZero() || f.last.Before(at) {
			oldest, at = who, f.last
		}
	}
	delete(a.all, oldest)
}

// succeeded forgets the failures of a user at an address.
func (a *attempts) succeeded(user, host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, attempt{user, host})
}

// sweep forgets what is old.
func (a *attempts) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for who, f := range a.all {
		if a.now().Sub(f.last) >= attemptsFor {
			delete(a.all, who)
		}
	}
}
