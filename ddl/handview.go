package ddl

import (
	"context"
	"errors"
	"sync"
	"time"

	"fastddl/event"
	"fastddl/internal/sleep"
)

const (
	// handInterval is how often a node looks whether a part that it builds is still its
	// own and wanted, and under which settings.
	handInterval = 400 * time.Millisecond
	// partReportInterval is how often it shows how far it is.
	partReportInterval = time.Second
)

// partView is what is shown of a part that is being built.
type partView struct {
	mu       sync.Mutex
	stage    string
	progress event.Progress
}

// bus returns a bus whose reports of progress come here, and all other events go to the
// node's.
func (v *partView) bus(node *event.Bus) (bus *event.Bus, unsubscribe func()) {
	bus = new(event.Bus)
	return bus, bus.Subscribe(func(e event.Event) {
		v.mu.Lock()
		switch e := e.(type) {
		case event.Progress:
			v.progress = e
		case event.StageChanged:
			v.stage = e.Stage
		default:
			defer node.Emit(e)
		}
		v.mu.Unlock()
	})
}

// done is how much of the part is read and imported; all says that it is finished.
func (v *partView) done(all bool) (rows, imported int64, percent float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.progress
	if all {
		return p.RowsDone, p.RowsDone, 100
	}
	if p.RowsTotal > 0 {
		percent = 100 * float64(p.RowsDone) / float64(p.RowsTotal)
	}
	return p.RowsDone, p.RowsImported, percent
}

// now is the stage and the speed of reading.
func (v *partView) now() (stage string, rowsPerSecond float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stage, v.progress.RowsPerSecond
}

// watch looks after a part that is being built, until ctx ends and stop has returned: it
// shows how far it is, follows the job's settings, and ends the build when the part is
// not wanted any more, or not this node's.
func (h *hand) watch(ctx context.Context, cancel context.CancelCauseFunc, p *heldPart) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.d.contained("the watch of a part", func() error {
			var reported time.Time
			for {
				nudged := h.d.partsNudged()
				report := time.Since(reported) >= partReportInterval
				if report {
					reported = time.Now()
				}
				if err := h.look(ctx, p, report); errors.Is(err, errLost) || errors.Is(err, errHalted) {
					cancel(err)
				}
				if !sleep.Unless(ctx, handInterval, nudged) {
					return nil
				}
			}
		})
	}()
	return func() { <-done }
}

// look fails with errLost or errHalted if the part is not to be built by this node. What
// else goes wrong is made up for by the next look.
func (h *hand) look(ctx context.Context, p *heldPart, report bool) error {
	return h.d.inTxn(ctx, func(x *txn) error {
		now, err := x.part(h.jobID, p.Number)
		if err != nil {
			return err
		}
		r, settings, err := x.readRecord(h.jobID)
		switch {
		case err != nil:
			return err
		case now == nil || r == nil || !now.HeldBy(p.Holder, p.Epoch):
			return errLost
		case !now.Wanted || !wantsParts(r, p.snapshotTS):
			return errHalted
		}
		if s := liveSettings(settings); s != p.live.Get() {
			p.live.Set(s)
		}
		if !report {
			return nil
		}
		rows, imported, percent := p.shown.done(false)
		stage, speed := p.shown.now()
		held := h.d.opts.Backfiller.Held(h.jobID)
		return x.exec(`UPDATE mysql.fastddl_build_parts SET stage = %?, wait_reason = %?, row_count = %?, imported_rows = %?, percent = %?,
			rows_per_second = %?, workers = %?, updated = NOW(6) WHERE job_id = %? AND part = %?`,
			orNull(stage), orNull(shortened(held.Wait, maxWaitReason)), rows, imported, percent, speed, held.Workers, h.jobID, p.Number)
	})
}
