package server

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
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
	file  *rotatingFile // nil: the log goes to standard error
}

// InitLogging sets up the log of the process. Close flushes and closes it.
func InitLogging(cfg config.Log) (*Log, error) {
	out, file, err := logSink(cfg.File)
	if err != nil {
		return nil, err
	}
	return initLogging(cfg, out, file)
}

// InitLoggingAmongFiles is InitLogging with a file in a folder of the server, which may not exist yet: an empty folder must stay empty until
// its store is made. Lines are held until the store is open. If that fails, warnings and errors go to standard error.
func InitLoggingAmongFiles(cfg config.Log) (*Log, error) {
	file := newRotatingFile(cfg.File)
	file.held = newHeldLines(os.Stderr)
	return initLogging(cfg, zapcore.AddSync(file), file)
}

func initLogging(cfg config.Log, out zapcore.WriteSyncer, file *rotatingFile) (*Log, error) {
	logger, props, err := log.InitLoggerWithWriteSyncer(encoding(cfg), out, out, zap.AddStacktrace(zapcore.FatalLevel))
	if err != nil {
		file.close()
		return nil, fmt.Errorf("log: %w", err)
	}
	log.ReplaceGlobals(logger, props)
	logutil.GeneralLogger = logger
	return &Log{Logger: logger, props: props, file: file}, nil
}

// Close flushes and closes the log.
func (l *Log) Close() {
	_ = l.Sync() // fails on terminals, where nothing is buffered
	l.file.close()
}

// openStatementLogs opens the log of slow statements, and that of all statements if it has a
// file of its own, beside l.
func (l *Log) openStatementLogs(cfg config.Log, generalFile string) error {
	file := logFile(cfg.File)
	file.Filename = ""
	// TiDB opens all its logs in one call; the others are l already.
	keep := zap.WrapCore(func(zapcore.Core) zapcore.Core { return l.Core() })
	err := logutil.InitLogger(&logutil.LogConfig{
		Config:        log.Config{Level: cfg.Level, Format: cfg.Format, File: file.FileLogConfig},
		SlowQueryFile: cfg.SlowQueryFile, GeneralLogFile: generalFile,
	}, keep)
	log.ReplaceGlobals(l.Logger, l.props)
	if err != nil || generalFile == "" {
		logutil.GeneralLogger = l.Logger
	}
	if err != nil {
		return fmt.Errorf("log.slow-query-file, tidb.log.general-log-file: %w", err)
	}
	return nil
}

// followMaxDays has tidb_log_file_max_days change l until it is undone. TiDB's own way is to
// open a log from its configuration in place of the process's.
func (l *Log) followMaxDays() (undo func() error) {
	before := variable.GetSysVar(variable.TiDBLogFileMaxDays)
	followed := *before
	followed.SetGlobal = func(_ context.Context, _ *variable.SessionVars, value string) error {
		days, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return err
		}
		variable.GlobalLogMaxDays.Store(int32(days))
		l.file.setMaxDays(int(days))
		return nil
	}
	variable.RegisterSysVar(&followed)
	return func() error {
		variable.RegisterSysVar(before)
		return nil
	}
}

// encoding is TiDB's, without the stack traces of errors that clients make.
func encoding(cfg config.Log) *log.Config {
	return &log.Config{Level: cfg.Level, Format: cfg.Format, DisableStacktrace: true, DisableErrorVerbose: true}
}

func logSink(file config.LogFile) (zapcore.WriteSyncer, *rotatingFile, error) {
	if file.Filename == "" {
		return zapcore.Lock(os.Stderr), nil, nil
	}
	if err := openOnce(file.Filename); err != nil {
		return nil, nil, err
	}
	rotating := newRotatingFile(file)
	return zapcore.AddSync(rotating), rotating, nil
}

// openOnce makes a log file. lumberjack opens lazily, so a bad path would lose the log instead of failing the start.
func openOnce(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log file: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("open log file: %w", err)
	}
	return nil
}

// rotatingFile is a log file that begins anew when it has grown, and whose predecessors are
// removed by their age. The methods of a nil one do nothing.
type rotatingFile struct {
	limits config.LogFile

	mu  sync.Mutex
	out *lumberjack.Logger // its fields must not change
	// held are lines of before the file may exist; nil once it does.
	held *heldLines
}

func newRotatingFile(limits config.LogFile) *rotatingFile {
	f := &rotatingFile{limits: limits}
	f.setMaxDays(limits.MaxDays)
	return f
}

// Write implements io.Writer.
func (f *rotatingFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		return f.held.Write(p)
	}
	return f.out.Write(p)
}

// Sync implements zapcore.WriteSyncer. zap calls it before it ends the process.
func (f *rotatingFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		return f.held.giveUp()
	}
	return nil
}

// release makes the file and writes the lines to it that were held. If that fails, on a full disk, what is serious goes to standard error,
// and later lines try again: a server starts without a log, so that rows can be deleted.
func (f *rotatingFile) release() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		return
	}
	err := openOnce(f.limits.Filename)
	if err == nil {
		_, err = f.out.Write(f.held.lines)
	}
	if err != nil {
		_, _ = fmt.Fprintf(f.held.instead, "warning: the log cannot be written: %v\n", err)
		_ = f.held.giveUp() // nothing is left to write to
	}
	f.held = nil
}

// setMaxDays says after how many days old files go; 0 keeps them.
func (f *rotatingFile) setMaxDays(days int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out != nil {
		_ = f.out.Close() // the next line opens the file
	}
	f.out = &lumberjack.Logger{
		Filename: f.limits.Filename, MaxSize: f.limits.MaxSize, MaxBackups: f.limits.MaxBackups, MaxAge: days, LocalTime: true,
	}
}

func (f *rotatingFile) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.out.Close()
}
