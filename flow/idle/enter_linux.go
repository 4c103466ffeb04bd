package idle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// oomScore is added to the OOM score: half of the memory that is there.
	oomScore, maxOOMScore = 500, 1000
	lowestNice            = 19
	// niceOfClassNice is the nice value of ClassNice.
	niceOfClassNice = 10
)

// Enter makes the calling process one of class idle, as Start asked, and returns its means. The command of a process that
// Start starts calls it first, before it opens files: it executes the program anew, with the same arguments, and returns
// in the second execution. It fails if the program cannot be executed.
func Enter() (Means, error) {
	r, err := receive()
	if err != nil {
		return Means{}, err
	}
	if r.Entered {
		m, err := kernel.means(0)
		m.Notes = r.Notes
		return m, err
	}
	// The execution ends all threads but this one, and those of the new program inherit from it.
	runtime.LockOSThread()
	kernel.lower(&r)
	r.Entered = true
	variable, err := r.variable()
	if err != nil {
		return Means{}, err
	}
	err = syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), variable))
	return Means{}, fmt.Errorf("execute the program anew: %w", err)
}

// lower lowers the calling thread and what belongs to the whole process. It notes what fails.
func (t tree) lower(r *request) {
	note := func(what string, err error) {
		if err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", what, err))
		}
	}
	if r.Group != "" {
		note("no control group", t.join(r.Group))
	}
	if session, err := unix.Getsid(0); err != nil || session != os.Getpid() {
		note("no autogroup", errors.New("the process was not started in a session of its own"))
	} else if file := t.proc(0, "autogroup"); exists(file) {
		note("no autogroup", setAutogroup(file, lowestNice))
	}
	if r.Class == ClassNice {
		note("usual priority", setThread(0, unix.SCHED_NORMAL, niceOfClassNice))
	} else {
		note("no class idle", setThread(0, unix.SCHED_IDLE, lowestNice))
	}
	note("usual I/O class", setIOClassIdle())
	note("usual OOM score", t.raiseOOMScore())
	note("OOM score without effect", t.killedTogether())
}

// join moves the process to a control group.
func (t tree) join(dir string) error {
	return writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(os.Getpid()))
}

// setThread sets class and nice value of a thread. Thread 0 is the calling one. A thread in class idle keeps the nice value it is
// given before: where RLIMIT_NICE allows a value, the class can be left with that one or a higher one.
func setThread(tid int, policy uint32, nice int) error {
	if policy == unix.SCHED_IDLE {
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil {
			return err
		}
	}
	return unix.SchedSetAttr(tid, &unix.SchedAttr{Policy: policy, Nice: int32(nice)}, 0)
}

func setIOClassIdle() error {
	_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ioWhoProcess, 0, ioClassIdle<<ioClassShift)
	if errno != 0 {
		return errno
	}
	return nil
}

func (t tree) raiseOOMScore() error {
	file := t.proc(0, "oom_score_adj")
	text, err := readText(file)
	if err != nil {
		return err
	}
	now, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	return writeFile(file, strconv.Itoa(min(maxOOMScore, now+oomScore)))
}

// autogroupTries and autogroupPause: without CAP_SYS_ADMIN the kernel takes one value in 100 ms, of all processes.
const (
	autogroupTries = 10
	autogroupPause = 100 * time.Millisecond
)

// setAutogroup sets the nice value of an autogroup. It waits where the kernel limits the rate.
func setAutogroup(file string, nice int) (err error) {
	for range autogroupTries {
		if err = writeFile(file, strconv.Itoa(nice)); !errors.Is(err, unix.EAGAIN) {
			return err
		}
		time.Sleep(autogroupPause)
	}
	return err
}
