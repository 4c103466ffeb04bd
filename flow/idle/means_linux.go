package idle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// means returns the means of a process. It fails if the process has ended.
func (t tree) means(pid int) (Means, error) {
	m := Means{Uniform: true}
	tasks, err := t.tasks(pid)
	if err != nil {
		return m, err
	}
	first := true
	for _, tid := range tasks {
		attr, err := unix.SchedGetAttr(tid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return m, fmt.Errorf("read the scheduling class of thread %d: %w", tid, err)
		}
		policy, nice := policyName(attr.Policy), int(attr.Nice)
		switch {
		case first:
			m.Policy, m.Nice, first = policy, nice, false
		case policy == m.Policy && nice == m.Nice:
		default:
			m.Uniform = false
			if m.Policy == policyIdle || (policy != policyIdle && nice < m.Nice) {
				m.Policy, m.Nice = policy, nice
			}
		}
	}
	if first {
		return m, fmt.Errorf("process %d has no threads", pid)
	}
	if group, err := t.membership(pid, "cpu"); err == nil && strings.HasPrefix(filepath.Base(group.dir), groupPrefix) {
		m.Group, m.GroupWeight = group.dir, groupKnob{dir: group.dir, version: group.version}.String()
	}
	m.AutogroupNice, m.Autogroup = t.autogroup(pid)
	if m.IOClass, err = ioClassName(pid); err != nil {
		return m, err
	}
	score, err := readText(t.proc(pid, "oom_score_adj"))
	if err != nil {
		return m, fmt.Errorf("read the OOM score of process %d: %w", pid, err)
	}
	if m.OOMScore, err = strconv.Atoi(score); err != nil {
		return m, fmt.Errorf("read the OOM score of process %d: %w", pid, err)
	}
	return m, nil
}

// tasks returns the threads of a process.
func (t tree) tasks(pid int) ([]int, error) {
	dir := t.proc(pid, "task")
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	tasks := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tasks = append(tasks, tid)
		}
	}
	return tasks, nil
}

func policyName(policy uint32) string {
	switch policy {
	case unix.SCHED_NORMAL:
		return "normal"
	case unix.SCHED_BATCH:
		return "batch"
	case unix.SCHED_IDLE:
		return policyIdle
	}
	return strconv.Itoa(int(policy))
}

// autogroup returns the nice value of a process's session, and whether it counts: the kernel
// groups by session only processes that no control group divides from others.
func (t tree) autogroup(pid int) (nice int, inForce bool) {
	if enabled, err := readText(t.path("proc/sys/kernel/sched_autogroup_enabled")); err != nil || enabled != "1" {
		return 0, false
	}
	// /autogroup-7 nice 19
	text, err := readText(t.proc(pid, "autogroup"))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return 0, false
	}
	if nice, err = strconv.Atoi(fields[2]); err != nil {
		return 0, false
	}
	group, err := t.membership(pid, "cpu")
	if errors.Is(err, errNoHierarchy) {
		return nice, true
	}
	return nice, err == nil && group.governing().top
}

// ioClassName returns the name of the I/O class of a process's main thread.
func ioClassName(pid int) (string, error) {
	class, err := ioClass(pid)
	if err != nil {
		return "", fmt.Errorf("read the I/O class of process %d: %w", pid, err)
	}
	switch class {
	case 0:
		return "none", nil
	case 1:
		return "realtime", nil
	case 2:
		return "best-effort", nil
	case ioClassIdle:
		return "idle", nil
	default:
		return strconv.Itoa(class), nil
	}
}
