package server

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// openingInterval is how often the log says what a start is doing.
const openingInterval = 5 * time.Second

// opening says what a start is doing, to the log and to /health.
type opening struct {
	log *zap.Logger
	now func() time.Time

	mu           sync.Mutex
	stage        string
	began, since time.Time // of the start, and of the stage
}

func newOpening(log *zap.Logger, now func() time.Time) *opening {
	o := &opening{log: log, now: now, stage: "reading the configuration", began: now()}
	o.since = o.began
	return o
}

// enter begins a stage.
func (o *opening) enter(stage string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	o.log.Info("opening: "+stage, zap.Duration("sinceStart", now.Sub(o.began)))
	o.stage, o.since = stage, now
}

// reason is why a server that is opening takes no statements yet.
func (o *opening) reason() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	return fmt.Errorf("%w: %s for %s, opening for %s", errNotReady, o.stage, now.Sub(o.since).Round(time.Second), now.Sub(o.began).Round(time.Second))
}

// report logs the stage that lasts at each tick, until the returned function is called.
func (o *opening) report(ticks <-chan time.Time) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-ticks:
				o.still()
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-ended
	})
}

func (o *opening) still() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	o.log.Info("still opening: "+o.stage, zap.Duration("sinceStage", now.Sub(o.since)), zap.Duration("sinceStart", now.Sub(o.began)))
}
