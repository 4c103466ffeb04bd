package worker

import "fastddl/event"

// wireEvent is an event of the worker; one of its fields is set.
type wireEvent struct {
	Range        *event.RangeDone
	Ingested     *event.Ingested
	Throttled    *event.Throttled
	Retry        *wireRetry
	NoStatistics *wireError
	Dropped      *wireError
}

type wireRetry struct {
	Op      string
	Attempt int
	Err     *wireError
}

// newWireEvent describes an event; nil if the server need not hear of it, as of progress and stages, which it shows itself.
func newWireEvent(e event.Event) *wireEvent {
	switch e := e.(type) {
	case event.RangeDone:
		return &wireEvent{Range: &e}
	case event.Ingested:
		return &wireEvent{Ingested: &e}
	case event.Throttled:
		return &wireEvent{Throttled: &e}
	case event.Retry:
		return &wireEvent{Retry: &wireRetry{e.Op, e.Attempt, newWireError(e.Err)}}
	case event.NoStatistics:
		return &wireEvent{NoStatistics: newWireError(e.Err)}
	case event.CheckpointDropped:
		return &wireEvent{Dropped: newWireError(e.Err)}
	}
	return nil
}

// event returns the event of a job; nil if it is none.
func (w *wireEvent) event(job event.Job) event.Event {
	switch {
	case w.Range != nil:
		return event.RangeDone{Job: job, Rows: w.Range.Rows, Elapsed: w.Range.Elapsed}
	case w.Ingested != nil:
		return event.Ingested{Job: job, Files: w.Ingested.Files, Bytes: w.Ingested.Bytes, Elapsed: w.Ingested.Elapsed}
	case w.Throttled != nil:
		return event.Throttled{Job: job, Reason: w.Throttled.Reason, For: w.Throttled.For, Yields: w.Throttled.Yields}
	case w.Retry != nil:
		return event.Retry{Job: job, Op: w.Retry.Op, Attempt: w.Retry.Attempt, Err: w.Retry.Err.err(nil)}
	case w.NoStatistics != nil:
		return event.NoStatistics{Job: job, Err: w.NoStatistics.err(nil)}
	case w.Dropped != nil:
		return event.CheckpointDropped{Job: job, Err: w.Dropped.err(nil)}
	}
	return nil
}
