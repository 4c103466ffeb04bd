package usage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is USER_HZ, in which the kernel counts CPU times; it is 100 on
// all platforms that Go runs on.
const ticksPerSecond = 100

// CPU is the CPU time that the process and its descendants have used.
func CPU(pid int) (time.Duration, error) {
	before, err := cpuOf(pid)
	if err != nil {
		return 0, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	for {
		children, err := childrenOf(pid)
		if err != nil {
			return 0, fmt.Errorf("list the children of process %d: %w", pid, err)
		}
		var total time.Duration
		for _, child := range children {
			t, err := CPU(child)
			if err != nil && !isGone(err) {
				return 0, err
			}
			total += t
		}
		now, err := cpuOf(pid)
		if err != nil {
			return 0, fmt.Errorf("read the usage of process %d: %w", pid, err)
		}
		// A child that has ended meanwhile may be missing, or be in both.
		if now.waited == before.waited {
			return now.own + now.waited + total, nil
		}
		before = now
	}
}

// Memory is the memory that the process and its descendants hold, in bytes.
func Memory(pid int) (uint64, error) {
	var anonymous, shared, file uint64
	err := forTree(pid, func(pid int) error {
		m, err := memoryOf(pid)
		anonymous += m.anonymous
		shared, file = max(shared, m.shared), max(file, m.file)
		return err
	})
	return anonymous + shared + file, err
}

// forTree calls fn for the process and its descendants. Descendants that end
// meanwhile are left out; if the process itself is gone, that is an error.
func forTree(pid int, fn func(pid int) error) error {
	if err := fn(pid); err != nil {
		return fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	children, err := childrenOf(pid)
	if err != nil {
		return fmt.Errorf("list the children of process %d: %w", pid, err)
	}
	for _, child := range children {
		if err := forTree(child, fn); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// childrenOf lists the children that the main thread has started, as servers
// that run as several processes do.
func childrenOf(pid int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, child)
	}
	return pids, nil
}

// Fields of /proc/<pid>/stat, counted from the one after the command's name.
const (
	statUserTime = 11
	statTimes    = 4 // user, system, and both of children waited for
)

// cpu is the CPU time of a process, and of its children that it has waited for.
type cpu struct{ own, waited time.Duration }

func cpuOf(pid int) (cpu, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return cpu{}, err
	}
	// The name is in parentheses and may hold anything, also parentheses.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < statUserTime+statTimes {
		return cpu{}, fmt.Errorf("stat has %d fields", len(fields))
	}
	var times [statTimes]time.Duration
	for i, f := range fields[statUserTime : statUserTime+statTimes] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return cpu{}, err
		}
		times[i] = time.Duration(n) * (time.Second / ticksPerSecond)
	}
	return cpu{own: times[0] + times[1], waited: times[2] + times[3]}, nil
}

type memory struct {
	anonymous, shared, file uint64
}

func memoryOf(pid int) (memory, error) {
	var m memory
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		var field *uint64
		switch name {
		case "RssAnon":
			field = &m.anonymous
		case "RssShmem":
			field = &m.shared
		case "RssFile":
			field = &m.file
		default:
			continue
		}
		kilobytes, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
		*field = kilobytes << 10
	}
	return m, nil
}
