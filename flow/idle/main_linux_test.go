package idle

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The test binary starts itself in other roles.
const (
	roleVariable = "IDLE_TEST_ROLE"
	joinVariable = "IDLE_TEST_JOIN" // a control group that the process joins at first
	cpuVariable  = "IDLE_TEST_CPU"  // the only processor of spinning threads
	spinVariable = "IDLE_TEST_SPIN" // how many threads spin
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(role string) error {
	if dirs := os.Getenv(joinVariable); dirs != "" {
		for _, dir := range strings.Split(dirs, ",") {
			if err := kernel.join(dir, os.Getpid()); err != nil {
				return err
			}
		}
	}
	switch role {
	case "spin":
		return playSpin()
	case "allocate":
		return playAllocate()
	case "server":
		return playServer()
	}
	return fmt.Errorf("unknown role")
}

// playSpin keeps threads busy from the line that it prints until its input ends. Each line of the input is the part of the time that they
// are busy from then on, 1 at first.
func playSpin() error {
	fmt.Println("ready")
	n, err := strconv.Atoi(os.Getenv(spinVariable))
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(n + 1) // for the input
	var share atomic.Uint64
	share.Store(math.Float64bits(1))
	for range n {
		go func() {
			runtime.LockOSThread()
			if cpu, err := strconv.Atoi(os.Getenv(cpuVariable)); err == nil {
				var set unix.CPUSet
				set.Set(cpu)
				if err := unix.SchedSetaffinity(0, &set); err != nil {
					panic(err)
				}
			}
			const batch = 2 * time.Millisecond
			for {
				for began := time.Now(); time.Since(began) < batch; {
				}
				if part := math.Float64frombits(share.Load()); part < 1 {
					time.Sleep(time.Duration(float64(batch) * (1/part - 1)))
				}
			}
		}()
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		part, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			return err
		}
		share.Store(math.Float64bits(part))
	}
	return lines.Err()
}

// role is a process of the test binary.
type role struct {
	*Process
	cmd   *exec.Cmd
	stdin io.Writer
}

// busy sets the part of the time that a spinning role is busy.
func (r role) busy(t *testing.T, part float64) {
	t.Helper()
	_, err := fmt.Fprintln(r.stdin, part)
	require.NoError(t, err)
}

// spin starts a process with busy threads on one processor, or anywhere if cpu is negative. If opts is nil it is one
// of the usual class, in a session of its own too, so that what else runs in this session slows down all alike.
func spin(t *testing.T, threads, cpu int, opts *Options, env ...string) role {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	r := role{cmd: exec.Command(exe)}
	r.cmd.Env = append(os.Environ(), roleVariable+"=spin", spinVariable+"="+strconv.Itoa(threads))
	r.cmd.Env = append(r.cmd.Env, env...)
	if cpu >= 0 {
		r.cmd.Env = append(r.cmd.Env, cpuVariable+"="+strconv.Itoa(cpu))
	}
	r.cmd.Stderr = os.Stderr
	r.stdin, err = r.cmd.StdinPipe() // ends when this process does
	require.NoError(t, err)
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	if opts != nil {
		r.Process, err = Start(r.cmd, *opts)
	} else {
		require.NoError(t, separate(r.cmd))
		r.Process = &Process{cmd: r.cmd}
		err = r.cmd.Start()
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.Kill()
			_ = r.Wait()
		}
	})
	_, err = bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err)
	return r
}

// means returns those of a role's process.
func (r role) means(t *testing.T) Means {
	t.Helper()
	m, err := r.Means()
	require.NoError(t, err)
	return m
}

// cpu returns the processor time of a role so far.
func (r role) cpu(t *testing.T) time.Duration {
	t.Helper()
	d, err := cpuTime(r.Pid())
	require.NoError(t, err)
	return d
}

// lastCPU returns a processor that the test may use.
func lastCPU(t *testing.T) int {
	t.Helper()
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	for cpu := len(set)*64 - 1; cpu >= 0; cpu-- {
		if set.IsSet(cpu) {
			return cpu
		}
	}
	t.Fatal("no processor")
	return 0
}

// container makes a control group of a controller, which a test's processes join, or skips the test.
func container(t *testing.T, controller string) string {
	t.Helper()
	own, err := kernel.membership(0, controller)
	if err != nil || own.version != 1 {
		t.Skipf("no control group of version 1 with controller %s: %v", controller, err)
	}
	dir := filepath.Join(own.dir, fmt.Sprintf("idle-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no control group can be made: %v", err)
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.Remove(dir) == nil }, time.Minute, 10*time.Millisecond)
	})
	return dir
}

// idleProcesses start a busy process of class idle on one processor, by where the kernel divides that. They return the environment for
// processes beside it.
var idleProcesses = map[string]func(t *testing.T, cpu int) (low role, env []string){
	"in the server's group": func(t *testing.T, cpu int) (role, []string) { return idleProcess(t, cpu, Options{}), nil },
	"in a group of its own": func(t *testing.T, cpu int) (role, []string) {
		low := idleProcess(t, cpu, Options{Group: true})
		if low.means(t).Group == "" {
			t.Skip("no group can be made")
		}
		return low, nil
	},
	"in a container, where sessions do not count": func(t *testing.T, cpu int) (role, []string) {
		env := []string{joinVariable + "=" + container(t, "cpu")}
		return idleProcess(t, cpu, Options{}, env...), env
	},
}

func idleProcess(t *testing.T, cpu int, opts Options, env ...string) role {
	t.Helper()
	low := spin(t, 1, cpu, &opts, env...)
	t.Log(low.means(t))
	return low
}
