package pebblekv

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// cappedFS is a file system in memory on a disk of limited size, which others use too.
type cappedFS struct {
	*vfs.MemFS

	mu    sync.Mutex
	total uint64
	// others is what other programs occupy. If they are greedy they take all space that gets
	// free, at any moment, but for what is spared.
	others, spared uint64
	greedy         bool
	nodes          map[string]*diskNode
	// creates counts the files created, by category.
	creates map[vfs.DiskWriteCategory]int
	// noFiles lets creating files fail for lack of descriptors.
	noFiles bool
	// onTable is asked before a table is created, if it is set.
	onTable func(vfs.DiskWriteCategory) error
	// writes counts the writes to files; the disk is full for good at the number fullAt, if it is not 0.
	writes, fullAt int
}

// errNoSpace is what a full disk says.
var errNoSpace = &os.PathError{Op: "write", Path: "file", Err: syscall.ENOSPC}

// errNoFiles is the error for a process that has no file descriptors left.
var errNoFiles = &os.PathError{Op: "open", Path: "file", Err: syscall.EMFILE}

// diskNode is what a file occupies.
type diskNode struct {
	size, allocated uint64
	links           int
}

func newCappedFS(total uint64) *cappedFS {
	return &cappedFS{
		MemFS: vfs.NewCrashableMem(), total: total,
		nodes: make(map[string]*diskNode), creates: make(map[vfs.DiskWriteCategory]int),
	}
}

// left is what the disk has left. The caller holds mu.
func (c *cappedFS) left() uint64 {
	used := c.others
	seen := make(map[*diskNode]bool)
	for _, n := range c.nodes {
		if !seen[n] {
			seen[n] = true
			used += max(n.size, n.allocated)
		}
	}
	left := c.total - min(used, c.total)
	if c.greedy && left > c.spared {
		c.others += left - c.spared
		return c.spared
	}
	c.spared = min(c.spared, left)
	return left
}

// fill lets others take all but leave bytes of what is left.
func (c *cappedFS) fill(leave uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others += c.left() - min(leave, c.left())
}

// fillForGood is fill now, and again whenever something gets free.
func (c *cappedFS) fillForGood(leave uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greedy, c.spared = true, leave
	c.left()
}

// clear lets the others give everything back.
func (c *cappedFS) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greedy, c.others = false, 0
}

// grow makes the disk larger.
func (c *cappedFS) grow(by uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += by
}

func (c *cappedFS) created(category vfs.DiskWriteCategory) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.creates[category]
}

func (c *cappedFS) setNoFiles(no bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noFiles = no
}

// beforeTables sets what is asked before a table is created: its error is that of creating it.
func (c *cappedFS) beforeTables(ask func(vfs.DiskWriteCategory) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onTable = ask
}

// failTables lets tables that are begun from now on fail with err, or no more.
func (c *cappedFS) failTables(err error) {
	c.beforeTables(func(vfs.DiskWriteCategory) error { return err })
}

func (c *cappedFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.left()
	return vfs.DiskUsage{AvailBytes: left, TotalBytes: c.total, UsedBytes: c.total - left}, nil
}

func (c *cappedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	c.mu.Lock()
	c.creates[category]++
	ask := c.onTable
	c.mu.Unlock()
	if ask != nil && isTable(category) {
		if err := ask(category); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noFiles {
		return nil, errNoFiles
	}
	f, err := c.MemFS.Create(name, category)
	if err != nil {
		return nil, err
	}
	c.unlink(name)
	n := &diskNode{links: 1}
	c.nodes[name] = n
	return &cappedFile{File: f, fs: c, node: n}, nil
}

func (c *cappedFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noFiles {
		return nil, errNoFiles
	}
	f, err := c.MemFS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	if c.nodes[name] == nil {
		c.nodes[name] = &diskNode{links: 1}
	}
	return &cappedFile{File: f, fs: c, node: c.nodes[name]}, nil
}

func (c *cappedFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := c.Rename(oldName, newName); err != nil {
		return nil, err
	}
	return c.OpenReadWrite(newName, category)
}

// unlink removes a name. The caller holds mu.
func (c *cappedFS) unlink(name string) { delete(c.nodes, name) }

func (c *cappedFS) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.MemFS.Remove(name); err != nil {
		return err
	}
	c.unlink(name)
	return nil
}

func (c *cappedFS) RemoveAll(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.nodes, func(path string, _ *diskNode) bool {
		return path == name || strings.HasPrefix(path, name+string(filepath.Separator))
	})
	return c.MemFS.RemoveAll(name)
}

func (c *cappedFS) Rename(oldName, newName string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.MemFS.Rename(oldName, newName); err != nil {
		return err
	}
	if n := c.nodes[oldName]; n != nil {
		delete(c.nodes, oldName)
		c.nodes[newName] = n
	}
	return nil
}

func (c *cappedFS) Link(oldName, newName string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.MemFS.Link(oldName, newName); err != nil {
		return err
	}
	if n := c.nodes[oldName]; n != nil {
		c.nodes[newName] = n
	}
	return nil
}

// cappedFile is a file on a cappedFS that is written from its beginning to its end.
type cappedFile struct {
	vfs.File
	fs   *cappedFS
	node *diskNode
	pos  uint64
}

// Write writes as much as there is room for.
func (f *cappedFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.writes++; f.fs.writes == f.fs.fullAt {
		f.fs.greedy, f.fs.spared = true, 0
	}
	room := f.fs.left() + max(f.node.size, f.node.allocated) - min(f.pos, max(f.node.size, f.node.allocated))
	short := uint64(len(p)) > room
	if short {
		p = p[:room]
	}
	n, err := f.File.Write(p)
	f.pos += uint64(n)
	f.node.size = max(f.node.size, f.pos)
	if err == nil && short {
		err = errNoSpace
	}
	return n, err
}

func (f *cappedFile) Preallocate(offset, length int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	want := uint64(offset + length)
	if have := max(f.node.size, f.node.allocated); want > have && want-have > f.fs.left() {
		return syscall.ENOSPC
	}
	f.node.allocated = max(f.node.allocated, want)
	return nil
}

func TestCappedFS(t *testing.T) {
	fs := newCappedFS(100)
	f, err := fs.Create("a", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	n, err := f.Write(make([]byte, 60))
	require.NoError(t, err)
	require.Equal(t, 60, n)
	require.NoError(t, fs.Link("a", "b"))
	n, err = f.Write(make([]byte, 60))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 40, n)
	require.NoError(t, fs.Remove("a"))
	usage, err := fs.GetDiskUsage("")
	require.NoError(t, err)
	require.Zero(t, usage.AvailBytes, "there is a link left")
	require.NoError(t, fs.Rename("b", "c"))
	require.NoError(t, fs.Remove("c"))
	f, err = fs.Create("d", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	require.NoError(t, f.Preallocate(0, 70))
	fs.fill(10)
	usage, err = fs.GetDiskUsage("")
	require.NoError(t, err)
	require.EqualValues(t, 10, usage.AvailBytes)
	n, err = f.Write(make([]byte, 100))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 80, n)
}
