package server

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fastddl/backfill"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/load"
)

// logEvents returns the listener that writes every event to the log. The end of a job has all of its history in one line.
func logEvents(log *zap.Logger) event.Listener {
	return func(e event.Event) {
		if ce := log.Check(eventLevel(e), e.String()); ce != nil {
			fields := []zap.Field{zap.Int64("job", e.JobID())}
			if ended, ok := e.(status.JobEnded); ok {
				fields = append(fields, zap.Reflect("build", ended.Summary()))
			}
			ce.Write(fields...)
		}
	}
}

// eventLevel keeps what happens a few times in a job at info and what happens
// for each range or batch at debug.
func eventLevel(e event.Event) zapcore.Level {
	switch e := e.(type) {
	case event.JobStateChanged:
		if e.Err != nil {
			return zapcore.WarnLevel
		}
	case status.JobEnded:
		if e.Info.Error != "" {
			return zapcore.WarnLevel
		}
	case event.Waiting:
		if !e.ForResources {
			return zapcore.WarnLevel // a transaction or a job is waited for
		}
	case event.ImportEnded:
		if e.Err != nil && !e.Cancelled {
			return zapcore.WarnLevel
		}
	case event.Command:
		if e.Err != nil {
			return zapcore.WarnLevel
		}
	case event.Retry, event.IdleBlockerEnded, event.CheckpointDropped, event.NoStatistics, event.SnapshotGivenUp:
		return zapcore.WarnLevel
	case event.Progress, event.RangeDone, event.Throttled, event.Ingested, event.LockWait, backfill.Finished, load.Finished:
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}
