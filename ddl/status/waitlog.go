package status

import (
	"strings"
	"time"

	"fastddl/event"
)

const (
	// longWait is how long a job has to wait for something before that is worth a line of the log.
	longWait = 5 * time.Second
	// WaitPaused is how the reason of a job begins that was paused, which has a line of its own.
	WaitPaused = "paused"
)

// IsPaused says that a wait reason is that of a pause.
func IsPaused(reason string) bool { return strings.HasPrefix(reason, WaitPaused) }

// isPlanned says that a client wants the job to wait.
func isPlanned(reason string) bool {
	return strings.HasPrefix(reason, "its window") || strings.HasPrefix(reason, "publication: ")
}

// waitWatch emits the long waits of a job: once, and again when they end.
type waitWatch struct {
	emit func(event.Event)
	// reported is the wait that was logged, and since when that lasts; zero if there is none.
	reported event.Waiting
	since    time.Time
}

// observe takes the job as it is now.
func (w *waitWatch) observe(now time.Time, info JobInfo) {
	if !w.since.IsZero() && !info.WaitSince.Equal(w.since) {
		w.emit(event.WaitEnded{Job: w.reported.Job, Schema: w.reported.Schema, Table: w.reported.Table, Reason: w.reported.Reason, Waited: now.Sub(w.since)})
		w.since = time.Time{}
	}
	waited := now.Sub(info.WaitSince)
	if info.WaitSince.IsZero() || IsPaused(info.WaitReason) || waited < longWait || !w.since.IsZero() {
		return
	}
	held := info.Building != nil && info.WaitReason == info.Building.Wait || isPlanned(info.WaitReason)
	w.reported = event.Waiting{
		Job: event.Job{ID: info.ID}, Schema: info.DB, Table: info.Table, Reason: info.WaitReason, Waited: waited, ForResources: held,
	}
	w.since = info.WaitSince
	w.emit(w.reported)
}
