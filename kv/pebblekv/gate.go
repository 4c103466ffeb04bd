package pebblekv

import (
	"sync"

	"fastddl/kv"
)

// gate counts running operations so that Close can wait for them. Entering is
// allowed while already inside, also when Close is waiting elsewhere, as long
// as the store is not closed.
type gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	idle   chan struct{}
}

// enter registers an operation; exit must follow unless it fails.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return kv.ErrClosed
	}
	g.inside++
	return nil
}

func (g *gate) exit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.closed {
		close(g.idle)
	}
}

// close lets nobody in any more and waits until everybody has left. It reports
// false if the gate was closed before.
func (g *gate) close() bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	g.closed = true
	g.idle = make(chan struct{})
	if g.inside == 0 {
		close(g.idle)
	}
	idle := g.idle
	g.mu.Unlock()
	<-idle
	return true
}
