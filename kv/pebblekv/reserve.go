package pebblekv

import (
	"errors"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// reserveFile occupies space that the store gives up when other programs have filled
// the disk: for the log, for deletions, and for starting.
const reserveFile = "RESERVE"

// makeReserve sets space aside. A reserve that cannot be made is tried again at one of
// the next measurements. The caller holds mu.
func (m *spaceMonitor) makeReserve() {
	if err := occupy(m.fs, m.reservePath(), m.limits.reserve); err != nil {
		m.log.Debug("no space could be reserved", zap.Error(err))
		return
	}
	m.reserved.Store(m.limits.reserve)
}

// dropReserve gives the reserve up. The caller holds mu.
func (m *spaceMonitor) dropReserve() {
	m.log.Warn("the disk is full: the store now lives on its reserve", zap.Uint64("reserveMiB", m.reserved.Load()>>20))
	if err := removeIfExists(m.fs, m.reservePath()); err != nil {
		m.log.Error("the reserve could not be given up", zap.Error(err))
	}
	m.reserved.Store(0)
}

// giveUp gives the reserve up for a write that has found the disk full. It says whether
// there was one.
func (m *spaceMonitor) giveUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reserved.Load() == 0 {
		return false
	}
	m.dropReserve()
	free, ok := m.look()
	if ok {
		m.become(m.stateOf(free), free)
	}
	return true
}

// occupy makes a file that has size bytes of the disk.
func occupy(fsys vfs.FS, name string, size uint64) (err error) {
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, removeIfExists(fsys, name))
		}
	}()
	if runtime.GOOS == "linux" && f.Preallocate(0, int64(size)) == nil {
		return f.Sync()
	}
	zeros := make([]byte, 1<<20)
	for size > 0 {
		n, err := f.Write(zeros[:min(size, uint64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= uint64(n)
	}
	return f.Sync()
}
