package pebblekv

import (
	"fmt"
	"sync"
	"time"

	"fastddl/kv"
)

// closeTimeout is how long Close waits for operations, iterators and work in the background.
const closeTimeout = 30 * time.Second

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

// close refuses further operations and waits until all running ones have ended,
// or for timeout. It reports false if the gate was closed before.
func (g *gate) close(timeout time.Duration) (first bool, err error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false, nil
	}
	g.closed = true
	g.idle = make(chan struct{})
	if g.inside == 0 {
		close(g.idle)
	}
	g.mu.Unlock()
	select {
	case <-g.idle:
		return true, nil
	case <-time.After(timeout):
		g.mu.Lock()
		defer g.mu.Unlock()
		return true, fmt.Errorf("pebblekv: closing: %d operations, iterators or jobs in the background are still open", g.inside)
	}
}
