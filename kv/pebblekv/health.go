package pebblekv

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"
)

// health gathers what the engine reports from the background: errors of
// flushes and compactions, write stalls, and the failure that ended writing.
type health struct {
	log *zap.Logger
	// failure is the first error after which no commit is taken any more.
	failure atomic.Pointer[error]
	// background is the error of the last flush, nil once one succeeded.
	background atomic.Pointer[error]
	// stalls counts the write stalls that are on: 0 or 1 per cause.
	stalls atomic.Int32
	// wedged says that the engine panicked inside its commit pipeline and may
	// hold locks for ever.
	wedged atomic.Bool
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
		return fmt.Errorf("pebblekv: store has failed: %w", *p)
	}
	return nil
}

// writable says whether a write would be accepted and could make progress.
func (h *health) writable() error {
	if err := h.failed(); err != nil {
		return err
	}
	if p := h.background.Load(); p != nil && h.stalled() {
		return fmt.Errorf("pebblekv: writes are stalled because the store cannot flush: %w", *p)
	}
	return nil
}

func (h *health) stalled() bool { return h.stalls.Load() > 0 }

// listener connects the engine's events.
func (h *health) listener() pebble.EventListener {
	return pebble.EventListener{
		BackgroundError: func(err error) {
			if errors.Is(err, pebble.ErrCancelledCompaction) {
				return
			}
			h.background.Store(&err)
			h.log.Error("background error of the storage engine", zap.Error(err))
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				h.background.Store(nil)
			}
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			h.stalls.Add(1)
			h.log.Warn("write stall begins", zap.String("reason", info.Reason))
		},
		WriteStallEnd: func() {
			h.stalls.Add(-1)
			h.log.Info("write stall ends")
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			h.fail(fmt.Errorf("data corruption: %s", info))
		},
	}
}

// engineLogger hands the engine's log lines to zap.
type engineLogger struct{ log *zap.SugaredLogger }

func (l engineLogger) Infof(format string, args ...any)  { l.log.Debugf(format, args...) }
func (l engineLogger) Errorf(format string, args ...any) { l.log.Errorf(format, args...) }

// Fatalf is called when the engine cannot know what is on disk, for example
// after a failed write of its manifest. It may not return.
func (l engineLogger) Fatalf(format string, args ...any) { l.log.Fatalf(format, args...) }
