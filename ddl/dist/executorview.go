package dist

import (
	"context"
	"errors"
	"sync"
	"time"

	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/internal/sleep"
)

const (
	// executorInterval is how often a node looks whether a subtask that it builds is still its
	// own and wanted, and under which settings.
	executorInterval = 400 * time.Millisecond
	// reportInterval is how often it shows how far it is.
	reportInterval = time.Second
)

// progressView is what is shown of a subtask that is being built.
type progressView struct {
	mu       sync.Mutex
	stage    string
	progress event.Progress
}

// bus returns a bus whose reports of progress come here, and all other events go to the
// node's.
func (v *progressView) bus(node *event.Bus) (bus *event.Bus, unsubscribe func()) {
	bus = new(event.Bus)
	return bus, bus.Subscribe(func(e event.Event) {
		v.mu.Lock()
		switch e := e.(type) {
		case event.Progress:
			v.progress = e
		case event.StageChanged:
			v.stage = e.Stage
		case event.Spent: // it is in the subtask's result
		default:
			defer node.Emit(e)
		}
		v.mu.Unlock()
	})
}

// of is how much is read and imported of a subtask: the rows of all subtasks are the first one's,
// and the percentage is that of each.
func (v *progressView) of(first bool) (rows, imported int64, percent float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.progress
	if p.RowsTotal > 0 {
		percent = 100 * float64(p.RowsDone) / float64(p.RowsTotal)
	}
	if !first {
		return 0, 0, percent
	}
	return p.RowsDone, p.RowsImported, percent
}

// now is the stage and the speed of reading.
func (v *progressView) now() (stage string, rowsPerSecond float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stage, v.progress.RowsPerSecond
}

// watch looks after what is being built, until ctx ends and stop has returned: it shows how
// far that is, follows the job's settings, and ends the build when a subtask is not wanted any
// more, or not this node's.
func (h *executor) watch(ctx context.Context, cancel context.CancelCauseFunc, held *holding) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.n.opts.Contain("the watch of a part", func() error {
			var reported time.Time
			for {
				nudged := h.n.nudged()
				report := time.Since(reported) >= reportInterval
				if report {
					reported = time.Now()
				}
				if err := h.check(ctx, held, report); errors.Is(err, records.ErrLost) || errors.Is(err, errHalted) {
					cancel(err)
				}
				if !sleep.Unless(ctx, executorInterval, nudged) {
					return nil
				}
			}
		})
	}()
	return func() { <-done }
}

// check fails with records.ErrLost or errHalted if a subtask is not to be built by this node. After other
// errors the next check decides.
func (h *executor) check(ctx context.Context, held *holding, report bool) error {
	subtasks := held.all() // before the transaction: it would not see that a later one is claimed
	return h.n.opts.Sessions.InTxn(ctx, func(x *session.Txn) error {
		r, settings, err := records.Read(x, h.jobID)
		if err != nil {
			return err
		}
		if r == nil {
			return records.ErrLost
		}
		for i, p := range subtasks {
			now, err := readSubtask(x, h.jobID, p.Number)
			switch {
			case err != nil:
				return err
			case now == nil || !now.HeldBy(p.Holder, p.Epoch):
				return records.ErrLost
			case !now.Wanted || !wantsSubtasks(r, held.snapshotTS):
				return errHalted
			}
			if !report {
				continue
			}
			if err := h.show(x, held, p, i == 0); err != nil {
				return err
			}
		}
		if s := LiveSettings(settings); s != held.live.Get() {
			held.live.Set(s)
		}
		return nil
	})
}

// show writes how far a subtask is.
func (h *executor) show(x *session.Txn, held *holding, p *heldSubtask, first bool) error {
	rows, imported, percent := held.shown.of(first)
	stage, speed := held.shown.now()
	now := h.n.opts.Builder.Allocation(h.jobID)
	if !first {
		speed, now.Workers = 0, 0
	}
	return x.Exec(`UPDATE mysql.fastddl_build_parts SET stage = %?, wait_reason = %?, row_count = %?, imported_rows = %?, percent = %?,
		rows_per_second = %?, workers = %?, updated = NOW(6) WHERE job_id = %? AND part = %?`,
		session.OrNull(stage), session.OrNull(session.Shortened(now.Wait, status.MaxWaitReason)), rows, imported,
		session.ShortNumber(percent, 2), session.ShortNumber(speed, 1), now.Workers, h.jobID, p.Number)
}
