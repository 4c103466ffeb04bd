package server

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fastddl/event"
)

// logEvents returns the listener that writes every event to the log.
func logEvents(log *zap.Logger) event.Listener {
	return func(e event.Event) {
		if ce := log.Check(eventLevel(e), e.String()); ce != nil {
			ce.Write(zap.Int64("job", e.JobID()))
		}
	}
}

// longLockWait is how long a job has to wait for the metadata lock before that
// is logged above debug.
const longLockWait = time.Second

// eventLevel keeps what happens a few times in a job at info and what happens
// for each range or batch at debug.
func eventLevel(e event.Event) zapcore.Level {
	switch e := e.(type) {
	case event.JobStateChanged:
		if e.Err != nil {
			return zapcore.WarnLevel
		}
	case event.LockWait:
		// Transactions end within milliseconds; who does not is worth a line.
		if e.Waited < longLockWait {
			return zapcore.DebugLevel
		}
		return zapcore.WarnLevel
	case event.Retry, event.IdleBlockerEnded, event.CheckpointDropped:
		return zapcore.WarnLevel
	case event.Progress, event.RangeDone, event.Throttled, event.Ingested:
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}
