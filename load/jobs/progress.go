package jobs

import (
	"fmt"
	"time"

	"fastddl/event"
)

// loading is a load that is under way.
type loading struct {
	now   func() Progress
	since time.Time
	// before is what was done when it began: by an earlier process.
	before float64
}

// follow has the import show how far its load is.
func (t *task) follow(now func() Progress) {
	t.loading.Store(&loading{now: now, since: time.Now(), before: now().Percent})
}

// progress is how far the import is.
func (t *task) progress() Progress {
	r := t.record()
	if r.Step == StepSwapped {
		return Progress{Rows: r.Rows, Read: r.SourceBytes, Bytes: r.SourceBytes, Percent: 100}
	}
	if l := t.loading.Load(); l != nil {
		return l.now()
	}
	return Progress{}
}

// describe says in words how far the import is.
func (t *task) describe(now Progress) string {
	switch step := t.record().Step; {
	case step == StepQueued:
		return "waits for earlier DDL"
	case step == StepDraining:
		return "waits for transactions that use the table"
	case step == StepUndoing:
		return "is undone"
	case step == StepSwapped:
		return "waits for transactions that read the table"
	}
	if now.Bytes == 0 {
		return ""
	}
	text := fmt.Sprintf("%.0f%%, %d of %d bytes read", now.Percent, now.Read, now.Bytes)
	if l := t.loading.Load(); l != nil {
		if left, known := remaining(time.Since(l.since), l.before, now.Percent); known {
			text += fmt.Sprintf(", about %s left", left)
		}
	}
	return text
}

// leastShown is the part of a load, in percent, after which the rest is estimated.
const leastShown = 3

// remaining is about how long a load takes from now on, that was done to before percent when it began and is at percent after elapsed.
func remaining(elapsed time.Duration, before, percent float64) (left time.Duration, known bool) {
	done := percent - before
	if done < leastShown || percent >= 100 {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (100 - percent) / done).Round(time.Second), true
}

func (t *task) emitBegin(step string, bytes int64) {
	r := t.record()
	t.j.opts.Bus.Emit(event.ImportBegan{
		Job: event.Job{ID: t.rowID}, ImportID: r.ImportID, Schema: r.Import.DB, Table: r.Import.Table, Step: step, SourceBytes: bytes,
	})
}

func (t *task) emitEnd() {
	r := t.record()
	e := event.ImportEnded{
		Job: event.Job{ID: t.rowID}, ImportID: r.ImportID, Schema: r.Import.DB, Table: r.Import.Table, Took: time.Since(t.begun),
		Cancelled: r.Cancelled, Err: t.err,
	}
	if t.err == nil {
		e.Rows, e.SourceBytes = r.Rows, r.SourceBytes
	}
	t.j.opts.Bus.Emit(e)
}
