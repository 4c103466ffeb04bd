package idle

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// nicePerLevel is the step in nice values: each is a factor of 1.25, so that a level is one of two.
const nicePerLevel = 3

// knobOf returns the knob that decides the share of a process.
func (t tree) knobOf(pid int) knob {
	if m, err := t.membership(pid, "cpu"); err == nil && strings.HasPrefix(filepath.Base(m.dir), groupPrefix) {
		return groupKnob{m.dir, m.version}
	}
	if _, inForce := t.autogroup(pid); inForce {
		return autogroupKnob{t, pid}
	}
	return threadsKnob{t, pid}
}

// autogroupKnob sets the nice value of the autogroup of a process. The threads stay in class idle.
type autogroupKnob struct {
	tree
	pid int
}

// niceOfLevel0 is that of levels if 0, at 19, were not an exception, so that level 6 is nice value 0.
const niceOfLevel0 = 18

// set sets nice values from 19 on. Those below 0, from level 7 on, need CAP_SYS_NICE or RLIMIT_NICE.
func (k autogroupKnob) set(level int) error {
	nice := niceOfLevel0 - nicePerLevel*level
	if level == 0 {
		nice = lowestNice
	}
	return writeFile(k.proc(k.pid, "autogroup"), strconv.Itoa(nice))
}

func (k autogroupKnob) level() (int, error) {
	nice, _ := k.autogroup(k.pid)
	return min(maxLevel, max(0, niceOfLevel0-nice)/nicePerLevel), nil
}

func (k autogroupKnob) name() string { return "nice value of the autogroup" }

// threadsKnob sets the class of the threads of a process.
type threadsKnob struct {
	tree
	pid int
}

// attributes returns class and nice value of a level.
func (k threadsKnob) attributes(level int) (policy uint32, nice int) {
	if level == 0 {
		return unix.SCHED_IDLE, lowestNice
	}
	return unix.SCHED_NORMAL, lowestNice - nicePerLevel*(level-1)
}

// set sets class idle, and above it nice values from 19 on. To be raised needs CAP_SYS_NICE or RLIMIT_NICE.
func (k threadsKnob) set(level int) error {
	policy, nice := k.attributes(level)
	err := k.setThreads(k.pid, func(tid int) (bool, error) {
		attr, err := unix.SchedGetAttr(tid, 0)
		if err != nil || (attr.Policy == policy && int(attr.Nice) == nice) {
			return false, err
		}
		return true, setThread(tid, policy, nice)
	})
	if err != nil {
		return fmt.Errorf("set the scheduling class: %w", err)
	}
	return nil
}

// level returns the level of the main thread.
func (k threadsKnob) level() (int, error) {
	attr, err := unix.SchedGetAttr(k.pid, 0)
	if err != nil {
		return 0, fmt.Errorf("read the scheduling class of process %d: %w", k.pid, err)
	}
	if attr.Policy == unix.SCHED_IDLE {
		return 0, nil
	}
	return min(maxLevel, (lowestNice-int(attr.Nice))/nicePerLevel+1), nil
}

// probe raises the main thread from its level to the next, and lowers it again, to see whether the kernel allows it.
func (k threadsKnob) probe(level int) error {
	before, err := unix.SchedGetAttr(k.pid, 0)
	if err != nil {
		return fmt.Errorf("read the scheduling class of process %d: %w", k.pid, err)
	}
	policy, nice := k.attributes(level + 1)
	if err := setThread(k.pid, policy, nice); err != nil {
		return err
	}
	return setThread(k.pid, before.Policy, int(before.Nice))
}

func (k threadsKnob) name() string { return "class of the threads" }
