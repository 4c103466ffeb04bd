package pebblekv

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"fastddl/kv"
)

// health gathers what the engine reports from the background: errors of
// flushes and compactions, write stalls, damage, and the failure that ended writing.
type health struct {
	log *zap.Logger
	// quiet holds back messages that repeat themselves.
	quiet logLimiter
	// failure is the first error after which no commit is taken any more.
	failure atomic.Pointer[error]
	// flush is the error of the last flush, and compaction that of the last compaction: nil
	// once one has succeeded.
	flush, compaction atomic.Pointer[error]
	// damage are the damaged files that were met and are still there, in the order in which
	// they were met, guarded by damageMu.
	damageMu sync.Mutex
	damage   []damagedFile
	// met says that damage was met since the store was opened. Tables are not cut in two any more then. It does not
	// become false again: the engine asks twice for an import, and panics if the two answers differ.
	met atomic.Bool
	// stalls counts the write stalls that are on: 0 or 1 per cause.
	stalls atomic.Int32
	// poisoned says that the engine panicked inside its commit pipeline and may
	// hold its locks for ever.
	poisoned atomic.Bool
}

// damagedFile is a file with what a read has met there first.
type damagedFile struct {
	path string
	err  error
}

// fail makes err the reason every later write is refused with.
func (h *health) fail(err error) {
	if h.failure.CompareAndSwap(nil, &err) {
		h.log.Error("store refuses writes from now on; reopen it to recover", zap.Error(err))
	}
}

// failed returns the failure, if there was one.
func (h *health) failed() error {
	if p := h.failure.Load(); p != nil {
		return fmt.Errorf("pebblekv: %w: %w", kv.ErrStoreFailed, *p)
	}
	return nil
}

func (h *health) stalled() bool { return h.stalls.Load() > 0 }

// emptyFlush is what the engine calls the error of a flush that had nothing to write. It is none.
const emptyFlush = "pebble: empty table"

// flushed notes the result of each flush.
func (h *health) flushed(err error) {
	if err == nil || err.Error() == emptyFlush {
		h.flush.Store(nil)
		return
	}
	h.flush.Store(&err)
}

// compacted notes the result of each compaction.
func (h *health) compacted(err error) {
	switch {
	case err == nil:
		h.compaction.Store(nil)
	case !errors.Is(err, pebble.ErrCancelledCompaction):
		h.compaction.Store(&err)
	}
}

// damaged returns the first damage that was met in a file that is still there, if any.
func (h *health) damaged() error {
	h.damageMu.Lock()
	defer h.damageMu.Unlock()
	if len(h.damage) == 0 {
		return nil
	}
	first := h.damage[0]
	return fmt.Errorf("%w: file %s: %w", kv.ErrDamaged, first.path, first.err)
}

// metDamage notes damage to a file, if it is the first there.
func (h *health) metDamage(path string, err error) {
	h.met.Store(true)
	h.damageMu.Lock()
	defer h.damageMu.Unlock()
	if !slices.ContainsFunc(h.damage, func(f damagedFile) bool { return f.path == path }) {
		h.damage = append(h.damage, damagedFile{path, err})
	}
}

// forgetDamage removes the damage of a file that is gone.
func (h *health) forgetDamage(path string) {
	h.damageMu.Lock()
	defer h.damageMu.Unlock()
	h.damage = slices.DeleteFunc(h.damage, func(f damagedFile) bool { return f.path == path })
}

// listener connects the engine's events.
func (h *health) listener() pebble.EventListener {
	return pebble.EventListener{
		// Of flushes, compactions, and other work in the background, such as statistics of tables.
		BackgroundError: func(err error) {
			if n, ok := h.quiet.allow("background error"); ok {
				h.log.Error("background error of the storage engine", zap.Error(err), zap.Int("similarBefore", n))
			}
		},
		FlushEnd: func(info pebble.FlushInfo) { h.flushed(info.Err) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			h.stalls.Add(1)
			if n, ok := h.quiet.allow("stall begins"); ok {
				h.log.Warn("write stall begins", zap.String("reason", info.Reason), zap.Int("similarBefore", n))
			}
		},
		WriteStallEnd: func() {
			h.stalls.Add(-1)
			if n, ok := h.quiet.allow("stall ends"); ok {
				h.log.Info("write stall ends", zap.Int("similarBefore", n))
			}
		},
		// Reads of the damaged part fail; everything else goes on, and compactions
		// leave the part alone for a while.
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			h.metDamage(info.Path, info.Details)
			if n, ok := h.quiet.allow("corruption " + info.Path); ok {
				h.log.Error("a file of the store is damaged", zap.String("file", info.Path),
					zap.Stringer("keys", info.Bounds), zap.Error(info.Details), zap.Int("similarBefore", n))
			}
		},
		TableDeleted: func(info pebble.TableDeleteInfo) {
			if info.Err == nil {
				h.forgetDamage(info.Path)
			}
		},
	}
}

// engineLogger hands the engine's log lines to zap.
type engineLogger struct {
	log   *zap.SugaredLogger
	quiet *logLimiter
}

func (l engineLogger) Infof(format string, args ...any) { l.log.Debugf(format, args...) }

func (l engineLogger) Errorf(format string, args ...any) {
	if n, ok := l.quiet.allow(format); ok {
		l.log.With("similarBefore", n).Errorf(format, args...)
	}
}

// Fatalf is called when the engine cannot know what is on disk, for example
// after a failed write of its manifest. It may not return.
func (l engineLogger) Fatalf(format string, args ...any) { l.log.Fatalf(format, args...) }

const (
	// logBurst messages of a kind are logged as they come, then one each logPause.
	logBurst = 5
	logPause = 10 * time.Second
	// logKinds bounds the number of kinds.
	logKinds = 1000
)

// logLimiter keeps messages that repeat themselves from filling the log.
type logLimiter struct {
	mu    sync.Mutex
	kinds map[string]*loggedKind
}

type loggedKind struct {
	burst, held int
	last        time.Time
}

// allow says whether a message of a kind is to be logged, and how many were held back
// since the last one.
func (l *logLimiter) allow(kind string) (held int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	k := l.kinds[kind]
	if k == nil {
		if l.kinds == nil || len(l.kinds) >= logKinds {
			l.kinds = make(map[string]*loggedKind)
		}
		k = &loggedKind{}
		l.kinds[kind] = k
	}
	if paused := now.Sub(k.last); paused >= logPause {
		k.burst = max(0, k.burst-int(paused/logPause)) // what is rare is always logged
	} else if k.burst >= logBurst {
		k.held++
		return 0, false
	}
	held, k.held = k.held, 0
	k.burst, k.last = k.burst+1, now
	return held, true
}
