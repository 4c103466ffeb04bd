package server

import (
	"fmt"
	"os"

	"github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/util/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/natefinch/lumberjack.v2"

	"fastddl/config"
)

// Log is the log of the process: TiDB's, the client library's, the store's and
// ours, in TiDB's format.
type Log struct {
	*zap.Logger
	props *log.ZapProperties
	close func()
}

// InitLogging sets up the log of the process. Close flushes and closes it.
func InitLogging(cfg config.Log) (*Log, error) {
	out, closeOut, err := logSink(cfg.File)
	if err != nil {
		return nil, err
	}
	logger, props, err := log.InitLoggerWithWriteSyncer(encoding(cfg), out, out, zap.AddStacktrace(zapcore.FatalLevel))
	if err != nil {
		closeOut()
		return nil, fmt.Errorf("log: %w", err)
	}
	log.ReplaceGlobals(logger, props)
	logutil.GeneralLogger = logger
	return &Log{Logger: logger, props: props, close: closeOut}, nil
}

// Close flushes and closes the log.
func (l *Log) Close() {
	_ = l.Sync() // fails on terminals, where nothing is buffered
	l.close()
}

// openSlowLog opens the log of slow statements beside l.
func (l *Log) openSlowLog(cfg config.Log) error {
	file := logFile(cfg.File)
	file.Filename = ""
	// TiDB opens all its logs in one call; the others are l already.
	keep := zap.WrapCore(func(zapcore.Core) zapcore.Core { return l.Core() })
	err := logutil.InitLogger(&logutil.LogConfig{
		Config: log.Config{Level: cfg.Level, Format: cfg.Format, File: file.FileLogConfig}, SlowQueryFile: cfg.SlowQueryFile}, keep)
	log.ReplaceGlobals(l.Logger, l.props)
	logutil.GeneralLogger = l.Logger
	if err != nil {
		return fmt.Errorf("log.slow-query-file: %w", err)
	}
	return nil
}

// encoding is TiDB's, without the stack traces of errors that clients make.
func encoding(cfg config.Log) *log.Config {
	return &log.Config{Level: cfg.Level, Format: cfg.Format, DisableStacktrace: true, DisableErrorVerbose: true}
}

func logSink(file config.LogFile) (zapcore.WriteSyncer, func(), error) {
	if file.Filename == "" {
		return zapcore.Lock(os.Stderr), func() {}, nil
	}
	// lumberjack opens lazily: open once here, so that a bad path fails the
	// start instead of losing the log.
	f, err := os.OpenFile(file.Filename, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open log file: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, nil, fmt.Errorf("open log file: %w", err)
	}
	rotating := &lumberjack.Logger{
		Filename:   file.Filename,
		MaxSize:    file.MaxSize,
		MaxAge:     file.MaxDays,
		MaxBackups: file.MaxBackups,
		LocalTime:  true,
	}
	return zapcore.AddSync(rotating), func() { _ = rotating.Close() }, nil
}
