package pebblekv

import (
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// grantInterval is how often it is looked whether more compactions may run.
	grantInterval = 100 * time.Millisecond
	// firstPause is how long compactions pause after one has failed. It doubles with
	// each that fails, up to lastPause.
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
)

// scheduler lets as many compactions run as the engine allows, but pauses after one
// has failed. The engine would begin the same one again at once, without an end: where
// a table of L0 is damaged, or the disk is full.
//
// Its lock comes after the engine's, which may be held when it is called; what it calls
// that takes the engine's lock, it calls in a goroutine of its own and without its lock.
type scheduler struct {
	db   pebble.DBForCompaction
	poke chan struct{}
	stop chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	running  int
	stopped  bool
	failures int // more than have succeeded, lately
	until    time.Time
}

var _ pebble.CompactionScheduler = (*scheduler)(nil)

func newScheduler() *scheduler {
	return &scheduler{poke: make(chan struct{}, 1), stop: make(chan struct{})}
}

// Register implements pebble.CompactionScheduler, as do the following.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) {
	s.db = db
	s.done.Go(s.grantPeriodically)
}

func (s *scheduler) Unregister() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	close(s.stop)
	s.done.Wait()
}

func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !s.take() {
		return false, nil
	}
	return true, grant{s}
}

func (s *scheduler) UpdateGetAllowedWithoutPermission() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// take counts one more compaction, if it may run.
func (s *scheduler) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.running >= s.db.GetAllowedWithoutPermission() || time.Now().Before(s.until) {
		return false
	}
	s.running++
	return true
}

func (s *scheduler) giveBack() {
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
}

// ended notes the result of each compaction.
func (s *scheduler) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, pebble.ErrCancelledCompaction):
	case err == nil:
		s.failures /= 2
	default:
		s.until = time.Now().Add(min(firstPause<<min(s.failures, 16), lastPause))
		s.failures++
	}
}

func (s *scheduler) grantPeriodically() {
	ticker := time.NewTicker(grantInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.poke:
		case <-s.stop:
			return
		}
		s.grantWaiting()
	}
}

// grantWaiting starts the compactions that wait, as far as they may run.
func (s *scheduler) grantWaiting() {
	for s.take() {
		waiting, _ := s.db.GetWaitingCompaction()
		if !waiting || !s.db.Schedule(grant{s}) {
			s.giveBack()
			return
		}
	}
}

// grant is the permission for one compaction.
type grant struct{ s *scheduler }

func (grant) Started()                                            {}
func (grant) MeasureCPU(pebble.CompactionGoroutineKind)           {}
func (grant) CumulativeStats(_ pebble.CompactionGrantHandleStats) {}

// Done may be called by a compaction that holds locks of its own, so that others are
// granted elsewhere.
func (g grant) Done() {
	g.s.giveBack()
	g.s.UpdateGetAllowedWithoutPermission()
}
