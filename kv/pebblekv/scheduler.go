package pebblekv

import (
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// grantInterval is how often the scheduler checks whether more compactions may run.
	grantInterval = 100 * time.Millisecond
	// firstPause is how long compactions pause after one has failed. It doubles with
	// each that fails, up to lastPause.
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
)

// scheduler lets as many compactions run as the engine allows, but pauses after one
// has failed. Without a pause the engine would retry the same compaction at once and
// without end, if a table of L0 is damaged or the disk is full.
//
// Lock order: the engine's lock, then mu. The engine may hold its lock when it calls the
// scheduler. The scheduler calls what takes the engine's lock from its own goroutine,
// without mu.
type scheduler struct {
	db   pebble.DBForCompaction
	wake chan struct{} // ends the wait of grantPeriodically
	stop chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	running  int
	stopped  bool
	failures int       // raised by one that fails, halved by one that succeeds
	resumeAt time.Time // no compaction begins before
}

var _ pebble.CompactionScheduler = (*scheduler)(nil)

func newScheduler() *scheduler {
	return &scheduler{wake: make(chan struct{}, 1), stop: make(chan struct{})}
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
	if !s.acquire() {
		return false, nil
	}
	return true, grant{s}
}

func (s *scheduler) UpdateGetAllowedWithoutPermission() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// acquire counts one more compaction as running, or returns false if none may begin now.
func (s *scheduler) acquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.running >= s.db.GetAllowedWithoutPermission() || time.Now().Before(s.resumeAt) {
		return false
	}
	s.running++
	return true
}

// release undoes acquire.
func (s *scheduler) release() {
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
}

// ended is called with the result of each compaction.
func (s *scheduler) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, pebble.ErrCancelledCompaction):
	case err == nil:
		s.failures /= 2
	default:
		s.resumeAt = time.Now().Add(min(firstPause<<min(s.failures, 16), lastPause))
		s.failures++
	}
}

func (s *scheduler) grantPeriodically() {
	ticker := time.NewTicker(grantInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.wake:
		case <-s.stop:
			return
		}
		s.grantWaiting()
	}
}

// grantWaiting starts waiting compactions, as many as may run.
func (s *scheduler) grantWaiting() {
	for s.acquire() {
		waiting, _ := s.db.GetWaitingCompaction()
		if !waiting || !s.db.Schedule(grant{s}) {
			s.release()
			return
		}
	}
}

// grant is the permission for one compaction.
type grant struct{ s *scheduler }

func (grant) Started()                                            {}
func (grant) MeasureCPU(pebble.CompactionGoroutineKind)           {}
func (grant) CumulativeStats(_ pebble.CompactionGrantHandleStats) {}

// Done only wakes the goroutine that grants further compactions: its caller, a compaction, may
// hold locks.
func (g grant) Done() {
	g.s.release()
	g.s.UpdateGetAllowedWithoutPermission()
}
