package server

import (
	"fmt"
	"io"
	"os"
	"strings"

	pclog "github.com/pingcap/log"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/natefinch/lumberjack.v2"

	"fastddl/config"
)

// NewLogger builds the server's logger. The function it returns flushes and
// closes the log.
func NewLogger(cfg config.Log) (*zap.Logger, func(), error) {
	level, err := zapcore.ParseLevel(cfg.Level)
	if err != nil {
		return nil, nil, fmt.Errorf("log level: %w", err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	var encoder zapcore.Encoder
	if cfg.Format == "json" {
		encoder = zapcore.NewJSONEncoder(encoding)
	} else {
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	}

	sink, closeSink, err := logSink(cfg.File)
	if err != nil {
		return nil, nil, err
	}
	logger := zap.New(zapcore.NewCore(encoder, sink, level))
	return logger, func() {
		_ = logger.Sync() // fails on terminals, where nothing is buffered
		closeSink()
	}, nil
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

// RedirectLibraryLogs leads the process-wide loggers of the SQL engine (logrus)
// and of TiDB's packages (pingcap/log) into logger.
func RedirectLibraryLogs(logger *zap.Logger) {
	logrus.SetOutput(io.Discard)
	// Debug would make the engine format every statement.
	logrus.SetLevel(logrus.InfoLevel)
	hooks := make(logrus.LevelHooks)
	hooks.Add(logrusHook{logger.Named("engine")})
	logrus.StandardLogger().ReplaceHooks(hooks)
	pclog.ReplaceGlobals(logger.Named("tidb"), &pclog.ZapProperties{Level: zap.NewAtomicLevelAt(logger.Level())})
}

// logrusHook forwards entries to zap, one level down: the engine calls a
// client's syntax error an error, and every new connection worth noting.
type logrusHook struct{ log *zap.Logger }

func (h logrusHook) Levels() []logrus.Level { return logrus.AllLevels }

func (h logrusHook) Fire(e *logrus.Entry) error {
	level := zapcore.DebugLevel
	switch {
	case e.Level <= logrus.FatalLevel || strings.Contains(e.Message, "panic"):
		level = zapcore.ErrorLevel
	case e.Level == logrus.ErrorLevel:
		level = zapcore.InfoLevel
	}
	ce := h.log.Check(level, strings.ReplaceAll(e.Message, "\n", "; "))
	if ce == nil {
		return nil
	}
	fields := make([]zap.Field, 0, len(e.Data))
	for k, v := range e.Data {
		fields = append(fields, zap.Any(k, v))
	}
	ce.Write(fields...)
	return nil
}
