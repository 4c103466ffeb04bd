package crash

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// launchVar, if it is set, has this test binary become the program that it names,
// which may not make some calls of the kernel without asking the supervisor at the
// socket that is named behind it.
const launchVar = "FASTDDL_CRASH_LAUNCH"

// supervised are the calls that a program has to ask for, and may be refused: those
// on files, but for writing, which is done to connections by the same call.
var supervised = map[int32]failing{
	unix.SYS_PREAD64: failingReads,
	unix.SYS_FSYNC:   failingWrites, unix.SYS_FDATASYNC: failingWrites, unix.SYS_PWRITE64: failingWrites,
	unix.SYS_OPENAT: failingWrites, unix.SYS_FTRUNCATE: failingWrites, unix.SYS_FALLOCATE: failingWrites,
	unix.SYS_RENAMEAT: failingWrites, unix.SYS_LINKAT: failingWrites,
}

// failing says which calls fail.
type failing int32

const (
	failingReads failing = 1 << iota
	failingWrites
)

// launch becomes the program.
func launch(order string) error {
	program, socket, _ := strings.Cut(order, "|")
	runtime.LockOSThread() // which the filter is for, and which the program begins with
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	// Its calls would not be answered after this test.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the test: %w", err)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	filter := supervisionFilter()
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})))
	if errno != 0 {
		return fmt.Errorf("install the filter: %w", errno)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(listener)), nil); err != nil {
		return err
	}
	return syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
}

// supervisionFilter has the kernel ask for each call that is supervised.
func supervisionFilter() []unix.SockFilter {
	const (
		load, equal, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	left := uint8(len(supervised))
	for number := range supervised {
		filter = append(filter, unix.SockFilter{Code: equal, Jt: left, K: uint32(number)})
		left--
	}
	return append(filter, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF})
}

// supervisor answers the calls of one process.
type supervisor struct {
	listener *os.File
	// fails are the calls of which one in rate fails with EIO.
	fails, rate atomic.Int32
	refused     atomic.Int64
	done        chan struct{}
	err         error // of answering, once done
}

// supervise waits for the listener of a process that is being launched, and answers
// its calls until it ends; those that fail from the beginning are as for fail.
func supervise(socket *net.UnixListener, fails failing, rate int) (*supervisor, error) {
	conn, err := socket.AcceptUnix()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, errors.New("the process has no filter")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	s := &supervisor{listener: os.NewFile(uintptr(fds[0]), "seccomp"), done: make(chan struct{})}
	s.fail(fails, rate)
	go func() {
		defer close(s.done)
		defer s.listener.Close()
		s.err = s.answerAll(fds[0])
	}()
	return s, nil
}

// notification and answer are the kernel's struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

func (s *supervisor) answerAll(fd int) error {
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return fmt.Errorf("wait for calls: %w", err)
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			return nil // the process has ended
		}
		var call notification
		switch err := control(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&call)); {
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR): // the thread has ended
			continue
		case err != nil:
			return fmt.Errorf("receive a call: %w", err)
		}
		reply := s.decide(&call)
		if err := control(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply)); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("answer a call: %w", err)
		}
	}
}

func (s *supervisor) decide(call *notification) answer {
	kind := supervised[call.number]
	if call.number == unix.SYS_OPENAT && call.args[2]&unix.O_CREAT == 0 {
		kind = 0
	}
	if failing(s.fails.Load())&kind == 0 || rand.Int32N(s.rate.Load()) != 0 {
		return answer{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	}
	s.refused.Add(1)
	return answer{id: call.id, errno: -int32(unix.EIO)}
}

// fail lets one in rate of the calls fail from now on.
func (s *supervisor) fail(kinds failing, rate int) {
	s.rate.Store(int32(rate))
	s.fails.Store(int32(kinds))
}

func control(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// A program that is supervised gets the errors that it is to get.
func TestSupervisor(t *testing.T) {
	program, err := exec.LookPath("sync")
	if err != nil {
		t.Skip(err)
	}
	l := newFaultBed(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, fails := range []failing{0, failingWrites, failingReads} {
		cmd := exec.CommandContext(t.Context(), l.launcher(t, program), file)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		s, err := supervise(l.socket, fails, 1)
		require.NoError(t, err)
		err = cmd.Wait()
		<-s.done
		require.NoError(t, s.err)
		if fails == 0 {
			require.NoError(t, err, "%s", out.String())
			continue
		}
		require.Error(t, err) // of fsync, or of reading its libraries
		require.Contains(t, strings.ToLower(out.String()), unix.EIO.Error())
		require.EqualValues(t, 1, s.refused.Load())
	}
}
