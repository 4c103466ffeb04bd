package backfilltest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SmallDisk has room for so many bytes in a folder, and may say how many are left.
type SmallDisk struct {
	vfs.FS
	// Dir is the folder.
	Dir string
	// Room is in bytes.
	Room atomic.Int64
	// Tells has the disk say how much is left.
	Tells bool

	mu sync.Mutex // one write at a time
	// Most is the most that was used.
	Most int64
}

// used is what the files in the folder occupy.
func (d *SmallDisk) used() (n int64) {
	_ = filepath.WalkDir(d.Dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil // an entry may be removed meanwhile
	})
	return n
}

func (d *SmallDisk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	if !d.Tells || !strings.HasPrefix(path, d.Dir) {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	used, room := d.used(), d.Room.Load()
	return vfs.DiskUsage{TotalBytes: uint64(room), UsedBytes: uint64(used), AvailBytes: uint64(room - used)}, nil
}

func (d *SmallDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := d.FS.Create(name, category)
	return d.file(name, file), err
}

func (d *SmallDisk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := d.FS.OpenReadWrite(name, category, opts...)
	return d.file(name, file), err
}

func (d *SmallDisk) file(name string, file vfs.File) vfs.File {
	if file == nil || !strings.HasPrefix(name, d.Dir) {
		return file
	}
	return &smallFile{file, d}
}

type smallFile struct {
	vfs.File
	disk *SmallDisk
}

// Write writes as much as there is room for.
func (f *smallFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	used, room := f.disk.used(), f.disk.Room.Load()
	f.disk.Most = max(f.disk.Most, min(room, used+int64(len(p))))
	if left := room - used; left < int64(len(p)) {
		n, _ := f.File.Write(p[:max(0, left)])
		return n, &os.PathError{Op: "write", Path: "file", Err: syscall.ENOSPC}
	}
	return f.File.Write(p)
}
