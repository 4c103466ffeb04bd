package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fastddl/internal/invariants"
	"fastddl/kv"
)

const (
	logicalBits = 18
	// tsWindow is how far ahead of the clock the durable bound on timestamps
	// is kept. It is extended in the background once half of it is used.
	tsWindow = 6 * time.Second
)

var errFutureTS = errors.New("pebblekv: timestamp has not been handed out yet")

// timestampOf is the first timestamp of the millisecond that t lies in.
func timestampOf(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) << logicalBits }

// timeline is the order of everything that happens to the store: it hands out
// timestamps, knows which commits are still in flight, which timestamps are
// being read, and up to where garbage collection has gone.
//
// All of it is under one lock, because the questions asked of it are about
// their relation: a reader may start at ts only when no commit at or below ts
// is in flight, and the safe point may move to ts only when no reader is below.
type timeline struct {
	now func() time.Time
	// persistBound makes a bound durable that no timestamp reaches before the
	// next one is durable.
	persistBound func(bound uint64) error
	// refused says why callers are not to wait for a bound that is being made durable: the store's writes
	// are blocked, and may stay so. nil lets all wait.
	refused func() error

	mu        sync.Mutex
	last      uint64     // the newest timestamp handed out
	bound     uint64     // timestamps stay below it
	extending *extension // the one under way, nil if there is none
	inflight  []*pendingCommit
	readers   map[uint64]int // timestamps being read, with the number of readers
	safePoint uint64
	failedAt  uint64 // 0, or the lowest commit timestamp with unknown outcome
	failure   error
}

// pendingCommit is a commit between taking its timestamp and its end.
type pendingCommit struct {
	ts       uint64
	finished bool
	// settled is closed when this commit and all earlier ones have finished.
	settled chan struct{}
}

// newTimeline continues after start, which is the durable bound of the store's
// previous life.
func newTimeline(start, safePoint uint64, persistBound func(uint64) error) *timeline {
	return &timeline{
		now:          time.Now,
		persistBound: persistBound,
		last:         start,
		bound:        start,
		readers:      make(map[uint64]int),
		safePoint:    safePoint,
	}
}

// current returns a fresh timestamp.
func (t *timeline) current() (uint64, error) { return t.take(func(uint64) {}) }

// take hands out the next timestamp and calls fn with it before a later one is
// handed out.
func (t *timeline) take(fn func(ts uint64)) (uint64, error) {
	for {
		ts, e := t.tryTake(fn)
		if e == nil {
			return ts, nil
		}
		if err := t.await(e); err != nil {
			return 0, err
		}
	}
}

// tryTake is take, or returns the extension that has to be waited for first.
func (t *timeline) tryTake(fn func(ts uint64)) (uint64, *extension) {
	t.mu.Lock()
	defer t.mu.Unlock() // also if fn panics
	ts := max(t.last+1, timestampOf(t.now()))
	if ts >= t.bound {
		return 0, t.extend()
	}
	t.last = ts
	fn(ts)
	const half = uint64(tsWindow/time.Millisecond/2) << logicalBits
	if t.bound-t.last <= half { // early, so that no caller has to wait for it
		t.extend()
	}
	t.check()
	return ts, nil
}

// extension moves the bound, for all callers that need it.
type extension struct {
	done chan struct{}
	err  error // set before done is closed
}

// extend returns the extension that is under way, and begins one if there is none. The
// caller holds mu.
func (t *timeline) extend() *extension {
	if t.extending != nil {
		return t.extending
	}
	e := &extension{done: make(chan struct{})}
	t.extending = e
	bound := max(t.last, t.bound, timestampOf(t.now())) + uint64(tsWindow/time.Millisecond)<<logicalBits
	go func() {
		defer close(e.done)
		err := t.persistBound(bound)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.extending = nil
		if err != nil {
			// The next caller that needs the bound extended meets it again.
			e.err = fmt.Errorf("pebblekv: extending the timestamp window: %w", err)
			return
		}
		t.bound = bound
	}()
	return e
}

// refusedInterval is how often a caller that waits for an extension checks refused.
const refusedInterval = 50 * time.Millisecond

// await waits for an extension, unless that is refused meanwhile.
func (t *timeline) await(e *extension) error {
	for {
		select {
		case <-e.done:
			return e.err
		case <-time.After(refusedInterval):
		}
		if t.refused != nil {
			if err := t.refused(); err != nil {
				return err
			}
		}
	}
}

// beginCommit takes a commit timestamp, registers the commit as in flight, and calls
// announce, if it is not nil, with the timestamp before a later one is handed out.
func (t *timeline) beginCommit(announce func(ts uint64)) (*pendingCommit, error) {
	p := &pendingCommit{settled: make(chan struct{})}
	begun := false
	defer func() {
		if !begun { // announce has panicked
			t.finishCommit(p, nil)
		}
	}()
	_, err := t.take(func(ts uint64) {
		p.ts = ts
		t.insertInflight(p)
		if announce != nil {
			announce(ts)
		}
	})
	begun = true
	if err != nil {
		return nil, err
	}
	return p, nil
}

// beginCommitAt registers a commit at a timestamp that was handed out earlier.
// The caller makes sure that no reader at or above ts has read what the commit
// writes; it is refused if the safe point has reached ts.
func (t *timeline) beginCommitAt(ts uint64) (*pendingCommit, error) {
	p := &pendingCommit{ts: ts, settled: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case ts > t.last:
		return nil, fmt.Errorf("%w: %d", errFutureTS, ts)
	case ts <= t.safePoint:
		return nil, fmt.Errorf("%w: commit at %d, the safe point is %d", kv.ErrSnapshotTooOld, ts, t.safePoint)
	}
	t.insertInflight(p)
	t.check()
	return p, nil
}

// insertInflight keeps inflight in the order of timestamps. The caller holds mu.
func (t *timeline) insertInflight(p *pendingCommit) {
	i := len(t.inflight)
	for i > 0 && t.inflight[i-1].ts > p.ts {
		i--
	}
	t.inflight = slices.Insert(t.inflight, i, p)
}

// check asserts the timeline's invariants. The caller holds mu.
func (t *timeline) check() {
	if !invariants.Enabled {
		return
	}
	invariants.Check(t.last <= t.bound, "timestamp %d was handed out above the durable bound %d", t.last, t.bound)
	invariants.Check(t.safePoint <= t.last, "the safe point %d is in the future of %d", t.safePoint, t.last)
	for i, p := range t.inflight {
		invariants.Check(p.ts > t.safePoint, "a commit at %d is in flight below the safe point %d", p.ts, t.safePoint)
		invariants.Check(p.ts <= t.last, "a commit at %d is in flight that was not handed out, %d was", p.ts, t.last)
		invariants.Check(i == 0 || t.inflight[i-1].ts <= p.ts, "commits in flight are not in order: %d before %d", t.inflight[max(i-1, 0)].ts, p.ts)
	}
	for ts, n := range t.readers {
		invariants.Check(n > 0, "%d readers at %d", n, ts)
		invariants.Check(ts >= t.safePoint, "a reader at %d is below the safe point %d", ts, t.safePoint)
	}
}

// finishCommit ends a commit, whether it was applied or dropped. A commit
// whose outcome is unknown is reported with an error; from then on nothing at
// or above its timestamp can be read.
func (t *timeline) finishCommit(p *pendingCommit, undetermined error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if undetermined != nil && (t.failedAt == 0 || p.ts < t.failedAt) {
		t.failedAt, t.failure = p.ts, undetermined
	}
	p.finished = true
	for len(t.inflight) > 0 && t.inflight[0].finished {
		close(t.inflight[0].settled)
		t.inflight[0] = nil
		t.inflight = t.inflight[1:]
	}
}

// failureAt says why ts cannot be read, if so. The caller holds mu.
func (t *timeline) failureAt(ts uint64) error {
	if t.failedAt != 0 && ts >= t.failedAt {
		return t.failure
	}
	return nil
}

// visible is the highest timestamp at which no commit is in flight or of
// unknown outcome. The caller holds mu.
func (t *timeline) visible() uint64 {
	v := t.last
	if len(t.inflight) > 0 {
		v = t.inflight[0].ts - 1
	}
	if t.failedAt != 0 {
		v = min(v, t.failedAt-1)
	}
	return v
}

// readAt registers a reader at ts and waits for the commits at or below ts.
func (t *timeline) readAt(ctx context.Context, ts uint64) error {
	t.mu.Lock()
	switch {
	case ts < t.safePoint:
		t.mu.Unlock()
		return fmt.Errorf("%w: %d is below %d", kv.ErrSnapshotTooOld, ts, t.safePoint)
	case ts > t.last:
		t.mu.Unlock()
		return fmt.Errorf("%w: %d", errFutureTS, ts)
	}
	t.readers[ts]++
	t.mu.Unlock()
	if err := t.awaitCommits(ctx, ts); err != nil {
		t.endRead(ts)
		return err
	}
	return nil
}

// pinRead registers a reader at ts without waiting for commits, and fails below
// the safe point. A ts that was not handed out yet is fine: it holds nothing back.
func (t *timeline) pinRead(ts uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ts < t.safePoint {
		return fmt.Errorf("%w: %d is below %d", kv.ErrSnapshotTooOld, ts, t.safePoint)
	}
	t.readers[ts]++
	return nil
}

// lastTS is the newest timestamp handed out.
func (t *timeline) lastTS() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// awaitCommits waits until no commit at or below ts is in flight, and fails if the
// outcome of one of them is unknown.
func (t *timeline) awaitCommits(ctx context.Context, ts uint64) error {
	t.mu.Lock()
	var newest *pendingCommit
	for _, p := range t.inflight {
		if p.ts > ts {
			break
		}
		newest = p
	}
	t.mu.Unlock()
	if newest != nil {
		select {
		case <-newest.settled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failureAt(ts)
}

// endRead undoes one readAt or pinRead.
func (t *timeline) endRead(ts uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	invariants.Check(t.readers[ts] > 0, "a reader at %d ends that there is not", ts)
	if t.readers[ts]--; t.readers[ts] == 0 {
		delete(t.readers, ts)
	}
}

// oldestRead is a lower bound of the timestamps that are being read, below those
// of the commits in flight. The caller holds mu.
func (t *timeline) oldestRead() uint64 {
	oldest := t.visible()
	for ts := range t.readers {
		oldest = min(oldest, ts)
	}
	return oldest
}

// advanceSafePoint moves the safe point up to target, though not beyond what
// is being read, and returns where it is now.
func (t *timeline) advanceSafePoint(target uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.safePoint = max(t.safePoint, min(target, t.oldestRead()))
	t.check()
	return t.safePoint
}

// currentSafePoint is the lowest timestamp that can be read.
func (t *timeline) currentSafePoint() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.safePoint
}
