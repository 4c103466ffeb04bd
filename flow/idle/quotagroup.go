package idle

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// quotaGroup is a control group that may have a quota of processor time.
type quotaGroup struct {
	version int
	dir     string
	// usage is the file with the use in version 1, of the hierarchy of controller cpuacct. It may be absent.
	usage string
}

// quotaGroups returns the groups that a process is in, from its own upwards.
func (t tree) quotaGroups(pid int) ([]quotaGroup, error) {
	m, err := t.membership(pid, "cpu")
	if errors.Is(err, errNoHierarchy) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	accounts := ""
	if m.version == 1 {
		if a, err := t.membership(pid, "cpuacct"); err == nil && a.version == 1 {
			accounts = a.mount
		}
	}
	var groups []quotaGroup
	for _, dir := range m.chain() {
		g := quotaGroup{version: m.version, dir: dir}
		if rel, err := filepath.Rel(m.mount, dir); err == nil && accounts != "" {
			g.usage = filepath.Join(accounts, rel, "cpuacct.usage")
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// quota returns the quota in processors, or 0 if there is none.
func (g quotaGroup) quota() (cpus float64, err error) {
	quota, micros := "", ""
	if g.version == 2 {
		text, err := readText(filepath.Join(g.dir, "cpu.max"))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil // the controller is not enabled, or this is the root
		}
		if err != nil {
			return 0, err
		}
		quota, micros, _ = strings.Cut(text, " ")
	} else {
		if quota, err = readText(filepath.Join(g.dir, "cpu.cfs_quota_us")); errors.Is(err, fs.ErrNotExist) {
			return 0, nil // a kernel without quotas
		}
		if err != nil {
			return 0, err
		}
		if micros, err = readText(filepath.Join(g.dir, "cpu.cfs_period_us")); err != nil {
			return 0, err
		}
	}
	p, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || p <= 0 {
		return 0, fmt.Errorf("the period of control group %s is %q", g.dir, micros)
	}
	if quota == "max" || quota == "-1" {
		return 0, nil
	}
	q, err := strconv.ParseInt(quota, 10, 64)
	if err != nil || q <= 0 {
		return 0, fmt.Errorf("the quota of control group %s is %q", g.dir, quota)
	}
	return float64(q) / float64(p), nil
}

// throttled returns the number of periods in which the kernel has stopped the group.
func (g quotaGroup) throttled() (uint64, error) {
	return readField(filepath.Join(g.dir, "cpu.stat"), "nr_throttled")
}

// used returns the processor time of all in the group, or that of the processes of some where the kernel does not account for it.
func (g quotaGroup) used(pids ...int) (time.Duration, error) {
	if g.version == 2 {
		micros, err := readField(filepath.Join(g.dir, "cpu.stat"), "usage_usec")
		return time.Duration(micros) * time.Microsecond, err
	}
	if text, err := readText(g.usage); err == nil {
		nanos, err := strconv.ParseInt(text, 10, 64)
		return time.Duration(nanos), err
	}
	var sum time.Duration
	for _, pid := range pids {
		used, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}
