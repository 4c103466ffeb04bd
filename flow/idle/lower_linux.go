package idle

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// oomScore adds all memory that there is to what the process uses, when the kernel chooses what to kill: the process comes before a
	// server that uses nearly all.
	oomScore   = 1000
	lowestNice = 19
	// levelOfClassNice is the level of nice value 10.
	levelOfClassNice = 4
)

// separate has a command start in a session of its own.
func separate(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	return nil
}

// lower keeps a process behind all others, which has just been started in a session of its own. It returns what the kernel refuses.
func (t tree) lower(pid int, group string, class Class) (notes []string) {
	note := func(what string, err error) {
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", what, err))
		}
	}
	if class == ClassNice {
		note("usual priority", threadsKnob{t, pid}.set(levelOfClassNice))
	} else {
		note("no class idle", threadsKnob{t, pid}.set(0))
	}
	note("usual I/O class", t.setIOClassIdle(pid))
	if group != "" {
		note("no control group", t.join(group, pid))
	}
	if file := t.proc(pid, "autogroup"); exists(file) {
		note("no autogroup", setAutogroup(file, lowestNice))
	}
	note("usual OOM score", writeFile(t.proc(pid, "oom_score_adj"), strconv.Itoa(oomScore)))
	note("OOM score without effect", t.killedTogether(pid))
	return notes
}

// join moves a process to a control group.
func (t tree) join(dir string, pid int) error {
	return writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
}

// setThreads calls set with each thread of a process until none is changed any more: a thread that is begun meanwhile has what the thread
// that began it had.
func (t tree) setThreads(pid int, set func(tid int) (changed bool, err error)) error {
	const maxPasses = 100
	for range maxPasses {
		tasks, err := t.tasks(pid)
		if err != nil {
			return err
		}
		again := false
		for _, tid := range tasks {
			changed, err := set(tid)
			if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return fmt.Errorf("thread %d: %w", tid, err)
			}
			again = again || changed
		}
		if !again {
			return nil
		}
	}
	return fmt.Errorf("process %d starts threads too fast", pid)
}

// setThread sets class and nice value of a thread. A thread in class idle keeps the nice value it is given before: where RLIMIT_NICE
// allows a value, the class can be left with that one or a higher one.
func setThread(tid int, policy uint32, nice int) error {
	if policy == unix.SCHED_IDLE {
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil {
			return err
		}
	}
	return unix.SchedSetAttr(tid, &unix.SchedAttr{Policy: policy, Nice: int32(nice)}, 0)
}

const (
	ioWhoProcess = 1
	ioClassShift = 13
	ioClassIdle  = 3
)

func (t tree) setIOClassIdle(pid int) error {
	return t.setThreads(pid, func(tid int) (bool, error) {
		if class, err := ioClass(tid); err != nil || class == ioClassIdle {
			return false, err
		}
		_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ioWhoProcess, uintptr(tid), ioClassIdle<<ioClassShift)
		if errno != 0 {
			return false, errno
		}
		return true, nil
	})
}

// ioClass returns the I/O class of a thread.
func ioClass(tid int) (int, error) {
	priority, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioWhoProcess, uintptr(tid), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(priority >> ioClassShift), nil
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
