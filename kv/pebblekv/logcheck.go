package pebblekv

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fastddl/kv"
)

const (
	logSuffix      = ".log"
	manifestPrefix = "MANIFEST-"
	// damagedLogs is the folder for copies of logs that were opened although they are
	// damaged.
	damagedLogs = "damaged-logs"
	// openWithout names the setting of the server that is Options.AllowDamagedLog.
	openWithout = "pebble.allow-damaged-log = true in the configuration file opens the store without them"
	// lastLogFile has the number of the newest log.
	lastLogFile = "LAST-LOG"
)

// logCheck examines the logs and the manifest before the engine reads them when the store
// is opened. The engine takes the first damage of a manifest for its end, and deletes the
// files that are named behind it.
//
// The engine has a check of logs, which is not enough (record.Reader.readAheadForCorruption
// and strictWALTail of Pebble 2.1.7; TestDamageThatTheEngineMisses):
//
//   - Each chunk has the offset up to which the log was synced, and damage below the offset
//     of a later chunk is found. But that offset leaves out the blocks that were written
//     whole (record.LogWriter.flushLoop), which after large commits are nearly all.
//   - It searches only the blocks behind the damaged one: of the newest log the last 32 KiB
//     are not checked.
//   - It takes a chunk with the number of the next log for the end of a log that was closed.
//     Where the number is even one bit makes it so, also in older logs.
//
// So each log is read twice, the second time out of the operating system's cache: that takes
// about a twentieth of the time to open a store with long logs.
type logCheck struct {
	fs      vfs.FS
	dir     string
	log     *zap.Logger
	allowed bool // Options.AllowDamagedLog
	// relaxed says that the logs were not synced when they were written. Then a crash
	// of the machine may have left holes, which are no damage.
	relaxed bool
	newest  uint64 // the number of the newest log
	// logs is how many logs there are, and opened how many the engine has begun to read, for stage.
	logs, opened int
	stage        func(string)
	// cut says that a log was cut at a damage: what came after it is left out, since it
	// would be history with a hole.
	cut bool
}

// newLogCheck finds out which log is the newest.
func newLogCheck(fsys vfs.FS, dir string, m marker, o Options) (*logCheck, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("pebblekv: reading %s: %w", dir, err)
	}
	return &logCheck{
		fs: fsys, dir: dir, log: o.Logger, allowed: o.AllowDamagedLog, relaxed: m.relaxed, newest: newestLog(names),
		logs: countLogs(names), stage: o.Stage,
	}, nil
}

func newestLog(names []string) uint64 {
	var newest uint64
	for _, name := range names {
		if n, ok := logNumber(name); ok {
			newest = max(newest, n)
		}
	}
	return newest
}

func countLogs(names []string) (n int) {
	for _, name := range names {
		if _, ok := logNumber(name); ok {
			n++
		}
	}
	return n
}

func logNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(filepath.Base(name), logSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// open opens a file for the engine.
func (c *logCheck) open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.fs.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	number, isLog := logNumber(name)
	if !isLog && !strings.HasPrefix(filepath.Base(name), manifestPrefix) {
		return f, nil
	}
	if isLog {
		c.opened++
		c.stage(fmt.Sprintf("replaying the log %s, %d of %d", filepath.Base(name), c.opened, max(c.opened, c.logs)))
	}
	end, err := c.check(name, number, isLog)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &cutFile{File: f, left: end}, nil
}

// uncut is the length of a file of which nothing is left out.
const uncut = 1 << 62

// check returns how many bytes of a log the engine may read.
func (c *logCheck) check(name string, number uint64, isLog bool) (end int64, err error) {
	f, err := c.fs.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	reader := &logReader{r: f, number: uint32(number), plain: !isLog}
	s, err := reader.scan()
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", name, err)
	}
	fields := []zap.Field{
		zap.String("file", name), zap.Int64("offset", s.end), zap.Int("recordsBehind", s.records),
	}
	switch {
	case !isLog && s.records > 0:
		return 0, fmt.Errorf("%w: %s is damaged at offset %d, with %d intact records behind that; restore the store from a backup",
			kv.ErrDamaged, name, s.end, s.records)
	case !isLog:
		return uncut, nil
	case c.cut:
		c.log.Error("a log is left out, because one before it is damaged", fields...)
		return 0, c.keep(name)
	case s.closed, number == c.newest && !s.lost:
		if s.behind > 0 && !s.closed {
			c.log.Warn("the log ends with a write that was under way when the machine stopped", fields...)
		}
		return uncut, nil
	case c.relaxed:
		c.log.Error("commits are lost: they were not synced before the machine stopped (sync is off)", fields...)
	case c.allowed:
		c.log.Error("commits are lost: the log is damaged", fields...)
	default:
		return 0, fmt.Errorf("%w: log %s is damaged at offset %d, with %d intact records behind that: "+
			"commits that were acknowledged would be lost; "+openWithout, kv.ErrDamaged, name, s.end, s.records)
	}
	c.cut = true
	return s.end, c.keep(name)
}

// keep copies a log that will not be read to its end: the engine deletes it.
func (c *logCheck) keep(name string) error {
	dir := filepath.Join(c.dir, damagedLogs)
	if err := c.fs.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	to := filepath.Join(dir, time.Now().UTC().Format("20060102-150405-")+filepath.Base(name))
	if err := vfs.Copy(c.fs, name, to); err != nil {
		return errors.Join(fmt.Errorf("keeping %s: %w", name, err), removeIfExists(c.fs, to))
	}
	c.log.Error("the log is kept", zap.String("file", to))
	return nil
}

// cutFile is a file that ends early.
type cutFile struct {
	vfs.File
	left int64
}

func (f *cutFile) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n, err := f.File.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}

// noteLog remembers the newest log, so that its loss is noticed. The note need not be
// synced: an older one only notices less.
func noteLog(fsys vfs.FS, dir string, number uint64) error {
	name := filepath.Join(dir, lastLogFile)
	f, err := fsys.Create(name+tmpSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(strconv.AppendUint(nil, number, 10))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return fsys.Rename(name+tmpSuffix, name)
}

// missingLog names the newest log if neither it nor a newer one is there. The engine
// keeps the newest log always.
func missingLog(fsys vfs.FS, dir string, names []string) string {
	f, err := fsys.Open(filepath.Join(dir, lastLogFile))
	if err != nil {
		return ""
	}
	content, err := io.ReadAll(f)
	if errors.Join(err, f.Close()) != nil {
		return ""
	}
	number, err := strconv.ParseUint(string(content), 10, 64)
	if err != nil || newestLog(names) >= number {
		return ""
	}
	return fmt.Sprintf("%06d%s", number, logSuffix)
}
