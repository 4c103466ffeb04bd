package crash

import (
	"debug/elf"
	endian "encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// errNoClock says that the clock of another process cannot be set here.
var errNoClock = errors.New("the clock of another process can be set on linux/amd64 only")

// clock is the wall clock of another process, which runs a program built by Go. Its
// runtime asks the kernel's shared page for the time, through a variable; that is made
// to lead to a few instructions of ours that add an offset. The monotonic clock stays
// as it is, as when the time of a machine is set.
type clock struct {
	mem    *os.File
	pid    int
	offset int64 // the address of the offset, in seconds
}

// clockCode calls the function whose address is at the end, and adds the seconds
// before it to what CLOCK_REALTIME gives. The room behind the end of a program's
// instructions, up to the end of the page, is where it is put.
var clockCode = []byte{
	0x57,                   // push rdi: the clock
	0x56,                   // push rsi: the timespec
	0x48, 0x83, 0xec, 0x08, // sub rsp, 8: aligned for a call
	0xff, 0x15, 0x24, 0x00, 0x00, 0x00, // call [rip+0x24]: the function
	0x48, 0x83, 0xc4, 0x08, // add rsp, 8
	0x5e,       // pop rsi
	0x5f,       // pop rdi
	0x85, 0xff, // test edi, edi: is it CLOCK_REALTIME
	0x75, 0x0a, // jne ret
	0x48, 0x8b, 0x0d, 0x0b, 0x00, 0x00, 0x00, // mov rcx, [rip+0xb]: the offset
	0x48, 0x01, 0x0e, // add [rsi], rcx: its seconds
	0xc3, // ret
}

const (
	offsetAt   = 40
	functionAt = 48
	clockSize  = 56
)

// takeClock takes the clock of a process that runs the program in a file, and is
// already past its first instructions.
func takeClock(pid int, program string) (*clock, error) {
	if runtime.GOARCH != "amd64" {
		return nil, errNoClock
	}
	code, variable, err := findClock(program)
	if err != nil {
		return nil, fmt.Errorf("find the clock in %s: %w", program, err)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	c := &clock{mem: mem, pid: pid, offset: code + offsetAt}
	err = c.whileStopped(func() error {
		function := make([]byte, 8)
		if _, err := mem.ReadAt(function, variable); err != nil {
			return err
		}
		if endian.LittleEndian.Uint64(function) == 0 {
			return errNoClock // the kernel has no shared page
		}
		image := make([]byte, clockSize)
		copy(image, clockCode)
		copy(image[functionAt:], function)
		if _, err := mem.WriteAt(image, code); err != nil {
			return err
		}
		_, err := mem.WriteAt(endian.LittleEndian.AppendUint64(nil, uint64(code)), variable)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the clock of process %d: %w", pid, err), mem.Close())
	}
	return c, nil
}

// findClock returns where in a program there is room for clockCode, and the variable
// that leads to the kernel's function.
func findClock(program string) (code, variable int64, err error) {
	f, err := elf.Open(program)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC {
		return 0, 0, fmt.Errorf("%w: its addresses are not fixed", errNoClock)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 {
			continue
		}
		end, page := int64(p.Vaddr+p.Memsz), int64(os.Getpagesize())
		code = (end + 15) &^ 15
		if left := (end+page-1)/page*page - code; left < clockSize {
			return 0, 0, fmt.Errorf("%w: %d bytes are free behind its code", errNoClock, left)
		}
	}
	symbols, err := f.Symbols()
	if err != nil {
		return 0, 0, err
	}
	for _, s := range symbols {
		if s.Name == "runtime.vdsoClockgettimeSym" {
			return code, int64(s.Value), nil
		}
	}
	return 0, 0, fmt.Errorf("%w: it was not built by Go, or is stripped", errNoClock)
}

// set makes the process's time so much later than ours.
func (c *clock) set(offset time.Duration) error {
	return c.whileStopped(func() error {
		_, err := c.mem.WriteAt(endian.LittleEndian.AppendUint64(nil, uint64(int64(offset/time.Second))), c.offset)
		return err
	})
}

func (c *clock) close() { _ = c.mem.Close() }

// whileStopped calls fn while no thread of the process runs.
func (c *clock) whileStopped(fn func() error) error {
	if err := syscall.Kill(c.pid, syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(c.pid, syscall.SIGCONT) }()
	for {
		runs, err := c.anyRuns()
		if err != nil {
			return err
		}
		if !runs {
			return fn()
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// anyRuns says whether a thread of the process may be executing its code.
func (c *clock) anyRuns() (bool, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.pid))
	if err != nil {
		return false, err
	}
	if len(files) == 0 {
		return false, os.ErrProcessDone
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return false, err
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		if after == "" || after[0] == 'R' || after[0] == 'S' {
			return true, nil
		}
	}
	return false, nil
}

// The clock of a server is where it was set, and goes on from there.
func TestClock(t *testing.T) {
	n := servertest.Start(t, binary, t.TempDir())
	c, err := takeClock(n.Cmd.Process.Pid, binary)
	if errors.Is(err, errNoClock) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer c.close()
	db := n.Open("test")
	for _, offset := range []time.Duration{0, 3 * time.Hour, -40 * time.Hour, 0} {
		require.NoError(t, c.set(offset))
		begun := time.Now().Add(offset).Unix()
		var now int64
		require.NoError(t, db.QueryRow("SELECT UNIX_TIMESTAMP()").Scan(&now))
		require.GreaterOrEqual(t, now, begun)
		require.LessOrEqual(t, now, time.Now().Add(offset).Unix())
	}
}
