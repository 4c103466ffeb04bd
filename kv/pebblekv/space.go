package pebblekv

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fastddl/internal/memory"
	"fastddl/kv"
)

const (
	// spaceInterval is the time between two looks at the disk, and
	// fullSpaceInterval that while writes are refused.
	spaceInterval     = time.Second
	fullSpaceInterval = 200 * time.Millisecond
	// spaceMaxAge is how old a measurement may be to go on refusing writes by.
	spaceMaxAge = 10 * time.Millisecond
	// refusalLasts is how long a store whose space is low counts as full after it has refused a write.
	refusalLasts = time.Minute

	// maxReserve is the size of the reserve on a disk that has room enough.
	maxReserve = 64 << 20
	// flushMargin is what has to be free besides what is in memory.
	flushMargin = 32 << 20
)

// writeClass says what a write is for.
type writeClass int

const (
	// ordinaryWrite adds data.
	ordinaryWrite writeClass = iota
	// essentialWrite leads to more space, such as a deletion, or is one of which the
	// caller says that it must go on (ApplyOptions.Essential).
	essentialWrite
	// ownWrite is one of the store's own records. They are tiny, and without them
	// nothing can be read any more either.
	ownWrite
)

// spaceLimits are amounts of free space in bytes, from large to small.
type spaceLimits struct {
	low     uint64 // below: SpaceLow
	full    uint64 // below: SpaceFull. What is in memory can still be flushed.
	reserve uint64 // the size of the reserve
	release uint64 // below: the reserve is given up
	last    uint64 // below, with the reserve given up: SpaceExhausted
}

// limitsOf returns the limits for a disk of total bytes, and memtables of memTable
// bytes.
func limitsOf(total, memTable uint64) spaceLimits {
	full := min(memory.MemTables*memTable+flushMargin, total/16)
	reserve := min(maxReserve, total/32)
	return spaceLimits{low: 2 * full, full: full, reserve: reserve, release: reserve / 8, last: reserve / 8}
}

// spaceMonitor watches how much room the store's disk has. It refuses writes before
// the disk is full, so that what was accepted can be flushed and deletions can go on,
// and keeps a file in reserve for when others fill the disk.
type spaceMonitor struct {
	fs  vfs.FS
	dir string
	log *zap.Logger
	now func() time.Time
	// limits are zero where the file system does not report its free space.
	limits spaceLimits

	// free is the free space at the last measurement, written the bytes that the store
	// has written since then.
	free, written atomic.Uint64
	state         atomic.Int32
	reserved      atomic.Uint64
	// blocked counts the writes of the engine that wait for space, after the reserve
	// was given up.
	blocked atomic.Int32
	// lacked is the last error of a write of the engine for lack of space or file descriptors,
	// nil if none has failed so.
	lacked atomic.Pointer[error]

	// refusal is the last refusal of data that have come while space was low, nil once there was more.
	refusal atomic.Pointer[refusal]

	mu         sync.Mutex // one measurement at a time
	measuredAt time.Time
	improved   chan struct{} // closed, and replaced, when there is more room
}

// refusal is a write that was refused for lack of space.
type refusal struct {
	at  time.Time
	err *kv.DiskFullError
}

// newSpaceMonitor looks at the disk of the store in dir. What an earlier life kept in
// reserve is given up until start.
func newSpaceMonitor(fsys vfs.FS, dir string, o Options) (*spaceMonitor, error) {
	m := &spaceMonitor{fs: fsys, dir: dir, log: o.Logger, now: time.Now, improved: make(chan struct{})}
	if err := removeIfExists(fsys, m.reservePath()); err != nil {
		return nil, err
	}
	if o.scratch {
		return m, nil
	}
	usage, err := fsys.GetDiskUsage(dir)
	if err != nil {
		// File systems in memory, mostly. Errors for lack of space are still dealt with.
		m.log.Debug("free space of the disk is unknown", zap.Error(err))
		return m, nil
	}
	m.limits = limitsOf(usage.TotalBytes, uint64(o.MemTableBytes))
	m.free.Store(usage.AvailBytes)
	return m, nil
}

func (m *spaceMonitor) enabled() bool { return m.limits != spaceLimits{} }

// watch keeps the state up to date until ctx ends.
func (m *spaceMonitor) watch(ctx context.Context) {
	if !m.enabled() {
		return
	}
	for {
		m.measure(0)
		wait := spaceInterval
		if m.current() >= kv.SpaceFull {
			wait = fullSpaceInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (m *spaceMonitor) current() kv.SpaceState { return kv.SpaceState(m.state.Load()) }

// wrote counts bytes that the store has written.
func (m *spaceMonitor) wrote(n int) { m.written.Add(uint64(n)) }

// estimate is the free space now, if no other program writes and nothing was deleted.
func (m *spaceMonitor) estimate() uint64 {
	free, written := m.free.Load(), m.written.Load()
	return free - min(free, written)
}

// ample says whether a write of size bytes needs no further thought.
func (m *spaceMonitor) ample(size int) bool {
	if m.blocked.Load() > 0 {
		return false
	}
	return !m.enabled() || m.current() < kv.SpaceFull && m.estimate() >= m.needed(size)
}

// needed is the free space that an ordinary write of size bytes asks for: it is written
// twice, to the log and to a table.
func (m *spaceMonitor) needed(size int) uint64 { return m.limits.full + 2*uint64(size) }

// admit refuses a write of a class and of size bytes if there is no room for it.
func (m *spaceMonitor) admit(class writeClass, size int) error {
	if m.ample(size) {
		return nil
	}
	if err := m.blockedErr(); err != nil {
		return err
	}
	maxAge := spaceMaxAge
	if m.current() < kv.SpaceFull {
		maxAge = 0 // nothing is refused by an estimate
	}
	m.measure(maxAge)
	state := m.current()
	if class == ownWrite || m.ample(size) || class == essentialWrite && state < kv.SpaceExhausted {
		return nil
	}
	needed := m.needed(size)
	if class == essentialWrite {
		needed = m.limits.last
	}
	refused := &kv.DiskFullError{Free: m.estimate(), Needed: needed, Stuck: state == kv.SpaceExhausted}
	if class == ordinaryWrite && size > 0 && state >= kv.SpaceLow {
		m.refusal.Store(&refusal{m.now(), refused})
	}
	return refused
}

// blockedErr returns an error if writes of the engine wait for space. Later writes fail with it
// instead of waiting.
func (m *spaceMonitor) blockedErr() error {
	if m.blocked.Load() == 0 {
		return nil
	}
	return m.lack()
}

// lacks notes an error of the engine for lack of space or file descriptors.
func (m *spaceMonitor) lacks(err error) { m.lacked.Store(&err) }

// lack is the error for writes while the engine lacks what it lacked last.
func (m *spaceMonitor) lack() error {
	if p := m.lacked.Load(); p != nil {
		return m.lackOf(*p)
	}
	return m.lackOf(nil)
}

// lackOf is the error for writes while the engine is blocked by err.
func (m *spaceMonitor) lackOf(err error) error {
	if noFiles(err) {
		return fmt.Errorf("pebblekv: there are no file descriptors, and writes wait for some: %w", err)
	}
	return &kv.DiskFullError{Free: m.estimate(), Needed: m.limits.full, Stuck: true}
}

// measure looks at the disk, unless the last look is less than maxAge ago, gives up or
// makes the reserve, and sets the state.
func (m *spaceMonitor) measure(maxAge time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.enabled() || m.now().Sub(m.measuredAt) < maxAge {
		return
	}
	free, ok := m.look()
	if !ok {
		return
	}
	if m.reserved.Load() > 0 && free < m.limits.release {
		m.dropReserve()
		free, _ = m.look()
	}
	if m.reserved.Load() == 0 && free >= backAbove(m.limits.full)+m.limits.reserve {
		m.makeReserve()
		free, _ = m.look()
	}
	m.become(m.stateOf(free), free)
}

// look asks the file system. The caller holds mu.
func (m *spaceMonitor) look() (free uint64, ok bool) {
	// What is written during the look may be counted twice, but not be missed.
	written := m.written.Load()
	usage, err := m.fs.GetDiskUsage(m.dir)
	if err != nil {
		m.log.Warn("free space of the disk cannot be read", zap.Error(err))
		return m.estimate(), false
	}
	m.free.Store(usage.AvailBytes)
	m.written.Add(-written)
	m.measuredAt = m.now()
	return usage.AvailBytes, true
}

// backAbove is the amount above which a limit that was undercut holds no more: a bit
// higher, so that the state does not change to and fro.
func backAbove(limit uint64) uint64 { return limit + limit/4 }

func (m *spaceMonitor) stateOf(free uint64) kv.SpaceState {
	was := m.current()
	below := func(limit uint64, state kv.SpaceState) bool {
		if was >= state {
			limit = backAbove(limit)
		}
		return free < limit
	}
	switch {
	case m.reserved.Load() == 0 && below(m.limits.last, kv.SpaceExhausted):
		return kv.SpaceExhausted
	case below(m.limits.full, kv.SpaceFull):
		return kv.SpaceFull
	case below(m.limits.low, kv.SpaceLow):
		return kv.SpaceLow
	default:
		return kv.SpaceOK
	}
}

// become sets the state. Writes that wait for space try again when it gets better. The
// caller holds mu.
func (m *spaceMonitor) become(state kv.SpaceState, free uint64) {
	was := kv.SpaceState(m.state.Swap(int32(state)))
	if state == was {
		return
	}
	fields := []zap.Field{
		zap.Stringer("was", was), zap.Stringer("is", state), zap.Uint64("freeMiB", free>>20),
		zap.Uint64("reserveMiB", m.reserved.Load()>>20), zap.Uint64("writesNeedMiB", m.limits.full>>20),
	}
	if state < kv.SpaceLow {
		m.refusal.Store(nil)
	}
	if state < was {
		close(m.improved)
		m.improved = make(chan struct{})
		m.log.Info("the disk has more room", fields...)
		return
	}
	m.log.Warn("the disk runs out of space", fields...)
}

// improves returns a channel that is closed when there is more room than now.
func (m *spaceMonitor) improves() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.improved
}

// Space implements kv.SpaceReporter. Of a file system that does not report its free
// space, such as one in memory, it returns zeros, and SpaceOK.
func (s *Store) Space() (free, reserve uint64, state kv.SpaceState) {
	return s.space.estimate(), s.space.reserved.Load(), s.space.current()
}

// Refused returns the refusal of a write for lack of space in the last minute, if there was one and no room was freed since.
// A small write may still be taken where a larger one is refused.
func (s *Store) Refused() error {
	r := s.space.refusal.Load()
	if r == nil || s.space.now().Sub(r.at) >= refusalLasts {
		return nil
	}
	return r.err
}

// Sizes implements kv.SizeReporter.
func (s *Store) Sizes() (kv.Sizes, error) {
	if err := s.gate.enter(); err != nil {
		return kv.Sizes{}, err
	}
	defer s.gate.exit()
	sizes := kv.Sizes{Store: s.db.Metrics().DiskSpaceUsage()}
	if !s.space.enabled() {
		return sizes, nil
	}
	usage, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		return sizes, fmt.Errorf("pebblekv: the disk of %s: %w", s.dir, err)
	}
	sizes.DiskFree, sizes.DiskTotal = usage.AvailBytes, usage.TotalBytes
	return sizes, nil
}

// SpaceForBuilds implements kv.SpaceReporter.
func (s *Store) SpaceForBuilds() uint64 { return backAbove(s.space.limits.low) }

// admit says whether a write of a class, and of size bytes of keys and values, may
// begin.
func (s *Store) admit(class writeClass, size int) error {
	if err := s.writable(class); err != nil {
		return err
	}
	return s.space.admit(class, size)
}

// writable refuses writes that could not end, because those of the engine are blocked.
func (s *Store) writable(class writeClass) error {
	if err := s.health.failed(); err != nil {
		return err
	}
	if err := s.stalledBy(); exhausted(err) {
		return s.space.lackOf(err)
	} else if err != nil {
		return fmt.Errorf("pebblekv: writes are stalled because the store cannot flush or compact: %w", err)
	}
	if damage := s.health.damaged(); damage != nil && class == ordinaryWrite && s.engineSignals().L0Sublevels >= l0DamagedSubs {
		return fmt.Errorf("pebblekv: too much is waiting to be compacted, because of damage; drop what is damaged, or load a dump into a new store: %w", damage)
	}
	return nil
}

// stalledBy is the error that stalls writes, nil if they are not stalled: that of a flush,
// or, where L0 is at its limit, of a compaction.
func (s *Store) stalledBy() error {
	if !s.health.stalled() {
		return nil
	}
	if err := s.health.flush.Load(); err != nil {
		return *err
	}
	if err := s.health.compaction.Load(); err != nil && s.engineSignals().L0Sublevels >= l0StopSubs {
		return *err
	}
	return nil
}

// Admit says whether Apply would take writes of about size bytes now: it fails with a
// kv.DiskFullError if there is no room for them, and as Healthy does if the store takes
// none at all. Callers that make promises before they apply ask first.
func (s *Store) Admit(writes Writes, size int) error {
	if err := s.writable(ordinaryWrite); err != nil || s.space.ample(size) {
		return err
	}
	class := essentialWrite
	for _, value := range writes {
		if len(value) > 0 {
			class = ordinaryWrite
			break
		}
	}
	return s.space.admit(class, size)
}

func (s *Store) admitApply(writes Writes, opts ApplyOptions) error {
	if opts.Essential {
		return s.admit(essentialWrite, opts.SizeHint)
	}
	return s.Admit(writes, opts.SizeHint)
}

func (m *spaceMonitor) reservePath() string { return filepath.Join(m.dir, reserveFile) }
