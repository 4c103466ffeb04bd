package crash

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fastddl/internal/servertest"
)

// faultBed is where servers run into which faults are injected.
type faultBed struct {
	// socket is where the programs that are launched hand over the right to answer
	// their calls.
	socket *net.UnixListener
	// disk is a small file system of the bed's own, or "" where there is none.
	disk string
}

// diskSize is small enough for the limits of a store to matter, and large enough for
// all that the search writes.
const diskSize = 768 << 20

// newFaultBed skips the test where processes cannot be supervised.
func newFaultBed(t *testing.T) *faultBed {
	t.Helper()
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "socket"), Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	l := &faultBed{socket: socket}
	if err := l.probe(t); err != nil {
		t.Skipf("system calls cannot be supervised here: %v", err)
	}
	return l
}

// probe supervises a program that does nothing.
func (l *faultBed) probe(t *testing.T) error {
	program, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	supervised := make(chan error, 1)
	go func() {
		s, err := supervise(l.socket, 0, 1)
		if err == nil {
			<-s.done
			err = s.err
		}
		supervised <- err
	}()
	if out, err := exec.CommandContext(t.Context(), l.launcher(t, program)).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return <-supervised
}

// launcher returns the program to start in place of another, to have it supervised.
func (l *faultBed) launcher(t *testing.T, program string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(launchVar, program+"|"+l.socket.Addr().String())
	return self
}

// mountDisk gives the bed a file system, which goes with this process: it must have its
// mounts to itself.
func (l *faultBed) mountDisk(t *testing.T) {
	t.Helper()
	disk := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize)))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) })
	l.disk = disk
}

// folder returns a new folder, on the bed's disk if it has one.
func (l *faultBed) folder(t *testing.T) string {
	t.Helper()
	if l.disk == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(l.disk, "store-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() { // the disk goes with the process
			kept := filepath.Join(os.TempDir(), "fastddl-"+filepath.Base(dir))
			t.Logf("the store is kept in %s: %v", kept, os.CopyFS(kept, os.DirFS(dir)))
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	return dir
}

// start starts a server under supervision, with its clock taken.
func (l *faultBed) start(t *testing.T, dir string) *faultyServer {
	t.Helper()
	servertest.Bootstrap(t, binary, dir)
	type supervision struct {
		*supervisor
		err error
	}
	supervised := make(chan supervision, 1)
	go func() {
		s, err := supervise(l.socket, 0, 1)
		supervised <- supervision{s, err}
	}()
	p := &faultyServer{Node: servertest.Start(t, l.launcher(t, binary), dir), bed: l, dir: dir}
	s := <-supervised
	require.NoError(t, s.err)
	p.calls = s.supervisor
	c, err := takeClock(p.Cmd.Process.Pid, binary)
	if errors.Is(err, errNoClock) {
		t.Logf("no jumps of the clock: %v", err)
		return p
	}
	require.NoError(t, err)
	t.Cleanup(c.close)
	p.clock = c
	return p
}

// faultyServer is a server into which faults are injected.
type faultyServer struct {
	*servertest.Node
	bed   *faultBed
	dir   string
	calls *supervisor
	clock *clock // nil where it cannot be had
}

// fillDisk takes all that is left of the disk at this moment, but for what the store
// keeps in reserve.
func (p *faultyServer) fillDisk() error {
	f, err := os.OpenFile(filepath.Join(p.bed.disk, "others"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for err = syscall.ENOSPC; errors.Is(err, syscall.ENOSPC); { // the store writes, too
		var disk unix.Statfs_t
		if err := unix.Statfs(p.bed.disk, &disk); err != nil {
			return err
		}
		info, statErr := f.Stat()
		if disk.Bavail == 0 || statErr != nil {
			return statErr
		}
		err = unix.Fallocate(int(f.Fd()), 0, info.Size(), int64(disk.Bavail)*disk.Bsize)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

func (p *faultyServer) clearDisk() error {
	if err := os.Remove(filepath.Join(p.bed.disk, "others")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// limitFiles lets the server have so many more file descriptors than it has.
func (p *faultyServer) limitFiles(more int) (undo func() error, err error) {
	pid := p.Cmd.Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, err
	}
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return nil, err
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) + more), Max: old.Max}, nil); err != nil {
		return nil, err
	}
	return func() error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil) }, nil
}

// ownMountsVar is set in a process of this test binary that has its mounts to itself.
const ownMountsVar = "FASTDDL_CRASH_OWN_MOUNTS"

// withOwnMounts runs the test in a process that has its mounts to itself, and says
// whether it has done so; if not, the caller is that process, or there cannot be one.
func withOwnMounts(t *testing.T) (done bool) {
	t.Helper()
	if os.Getenv(ownMountsVar) != "" {
		return false
	}
	runtime.LockOSThread() // whose end would be taken for that of this process
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	require.NoError(t, err)
	probe := exec.CommandContext(t.Context(), "mount", "--version")
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := probe.Run(); err != nil {
		t.Logf("no full disks: a process with mounts of its own is not possible here: %v", err)
		return false
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
	cmd.Env = append(os.Environ(), ownMountsVar+"=1", "FASTDDL_BIN="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		t.Log(strings.TrimSuffix(line, "\n"))
	}
	require.NoError(t, err)
	if reason, skipped := skipReason(t.Name(), string(out)); skipped {
		t.Skip(reason)
	}
	return true
}

// skipReason says whether the output of a verbose test shows that it was skipped, and why.
func skipReason(name, out string) (reason string, skipped bool) {
	before, _, skipped := strings.Cut(out, "--- SKIP: "+name+" ")
	lines := strings.Split(strings.TrimSpace(before), "\n")
	return strings.TrimSpace(lines[len(lines)-1]), skipped
}

// What a process of this test's own skips is not passed.
func TestSkippedWithOwnMounts(t *testing.T) {
	reason, skipped := skipReason("TestX", "=== RUN   TestX\n    lab_linux_test.go:41: not here\n--- SKIP: TestX (0.00s)\nPASS\n")
	require.True(t, skipped)
	require.Equal(t, "lab_linux_test.go:41: not here", reason)
	_, skipped = skipReason("TestX", "=== RUN   TestX\n--- PASS: TestX (0.00s)\nPASS\n")
	require.False(t, skipped)
}
