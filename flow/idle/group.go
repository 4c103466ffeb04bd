package idle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"fastddl/internal/errs"
)

// groupPrefix begins the name of each group that Start makes: fastddl-worker-PID-N, by the server's process.
const groupPrefix = "fastddl-worker-"

var (
	// groupsMade numbers the groups of this process.
	groupsMade atomic.Uint64
	// groupsInUse are the folders of those whose process has not been waited for. An earlier server may have had
	// the number of this process: in a container it always has.
	groupsInUse sync.Map
)

// makeGroup makes a control group of the lowest weight beside processes of this one, and returns its folder.
// Groups that servers left behind that were killed are removed first.
func (t tree) makeGroup() (dir string, err error) {
	own, err := t.membership(0, "cpu")
	if err != nil {
		return "", err
	}
	parent, err := own.parentOfSiblings()
	if err != nil {
		return "", err
	}
	if err := t.removeLeftovers(parent); err != nil {
		return "", err
	}
	dir = filepath.Join(parent, fmt.Sprintf("%s%d-%d", groupPrefix, os.Getpid(), groupsMade.Add(1)))
	if err := t.mkdir(dir); err != nil {
		return "", err
	}
	groupsInUse.Store(dir, true)
	if err := (groupKnob{dir: dir, version: own.version}).set(0); err != nil {
		return "", errs.Combine(err, t.removeGroup(dir))
	}
	return dir, nil
}

// removeGroup removes a group that makeGroup has made. If it fails, the next makeGroup tries again.
func (t tree) removeGroup(dir string) error {
	groupsInUse.Delete(dir)
	return t.rmdir(dir)
}

// parentOfSiblings returns the folder in which a group can be made.
func (m membership) parentOfSiblings() (string, error) {
	if m.outside {
		return "", errors.New("the server's own control group is not visible")
	}
	if m.version == 1 {
		return m.dir, nil // a group has processes and groups
	}
	parent := filepath.Dir(m.dir)
	switch {
	case m.governing().top && m.dir == m.mount:
		parent = m.dir // of all groups only the root may have both
	case m.dir == m.mount:
		return "", errors.New("the server's control group is the topmost that its container sees")
	default:
		if limit := m.limit(); limit != "" {
			return "", fmt.Errorf("the server's control group has limits of its own (%s), which a sibling would not keep", limit)
		}
	}
	if !hasWord(filepath.Join(parent, "cgroup.subtree_control"), "cpu") {
		return "", errors.New("the control group above the server's does not divide processor time")
	}
	return parent, nil
}

// limit returns the name of a file with a limit that holds for the group and not for its siblings.
func (m membership) limit() string {
	for _, file := range []string{"cpu.max", "memory.max", "memory.high", "cpuset.cpus"} {
		none := "max"
		if file == "cpuset.cpus" {
			none = ""
		}
		text, err := readText(filepath.Join(m.dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the controller is not enabled
		}
		first, _, _ := strings.Cut(text, " ")
		if err != nil || first != none {
			return file
		}
	}
	return ""
}

// removeLeftovers removes the groups of processes that have ended. One with processes stays: a worker that has not
// ended yet.
func (t tree) removeLeftovers(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("look for control groups of earlier servers: %w", err)
	}
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), groupPrefix)
		if !ours || !entry.IsDir() {
			continue
		}
		number, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if err != nil || (pid != os.Getpid() && exists(t.proc(pid))) {
			continue
		}
		dir := filepath.Join(parent, entry.Name())
		if _, used := groupsInUse.Load(dir); used {
			continue
		}
		// Another server may have been first.
		if err := t.rmdir(dir); err != nil && exists(dir) && !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("remove the control group of an earlier server: %w", err)
		}
	}
	return nil
}
