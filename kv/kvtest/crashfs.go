package kvtest

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// CrashableFS is a file system in memory that can be cloned as a crash would leave it,
// also while files are linked: Pebble's own takes its lock for reading twice in Link, and
// a clone that waits for the lock in between keeps both waiting for ever.
type CrashableFS struct {
	*vfs.MemFS
	links sync.RWMutex // held for reading by Link; comes before the lock of MemFS
}

// NewCrashableFS returns an empty file system.
func NewCrashableFS() *CrashableFS { return &CrashableFS{MemFS: vfs.NewCrashableMem()} }

// Link implements vfs.FS.
func (fs *CrashableFS) Link(oldname, newname string) error {
	fs.links.RLock()
	defer fs.links.RUnlock()
	return fs.MemFS.Link(oldname, newname)
}

// CrashClone returns what a crash now leaves.
func (fs *CrashableFS) CrashClone(cfg vfs.CrashCloneCfg) *CrashableFS {
	fs.links.Lock()
	defer fs.links.Unlock()
	return &CrashableFS{MemFS: fs.MemFS.CrashClone(cfg)}
}
