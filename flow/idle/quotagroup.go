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

// defaultPeriod is the kernel's.
const defaultPeriod = 100 * time.Millisecond

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

// quota returns the quota in processors, or 0 if there is none, and the period.
func (g quotaGroup) quota() (cpus float64, period time.Duration, err error) {
	quota, micros := "", ""
	if g.version == 2 {
		text, err := readText(filepath.Join(g.dir, "cpu.max"))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, defaultPeriod, nil // the controller is not enabled, or this is the root
		}
		if err != nil {
			return 0, 0, err
		}
		quota, micros, _ = strings.Cut(text, " ")
	} else {
		if quota, err = readText(filepath.Join(g.dir, "cpu.cfs_quota_us")); errors.Is(err, fs.ErrNotExist) {
			return 0, defaultPeriod, nil // a kernel without quotas
		}
		if err != nil {
			return 0, 0, err
		}
		if micros, err = readText(filepath.Join(g.dir, "cpu.cfs_period_us")); err != nil {
			return 0, 0, err
		}
	}
	p, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || p <= 0 {
		return 0, 0, fmt.Errorf("the period of control group %s is %q", g.dir, micros)
	}
	period = time.Duration(p) * time.Microsecond
	if quota == "max" || quota == "-1" {
		return 0, period, nil
	}
	q, err := strconv.ParseInt(quota, 10, 64)
	if err != nil || q <= 0 {
		return 0, 0, fmt.Errorf("the quota of control group %s is %q", g.dir, quota)
	}
	return float64(q) / float64(p), period, nil
}

// setQuota sets the quota in processors. 0 is none.
func (g quotaGroup) setQuota(cpus float64, period time.Duration) error {
	// The kernel takes a millisecond or more.
	micros := max(int64(time.Millisecond/time.Microsecond), int64(cpus*float64(period/time.Microsecond)))
	if g.version == 2 {
		text := "max"
		if cpus > 0 {
			text = strconv.FormatInt(micros, 10)
		}
		return writeFile(filepath.Join(g.dir, "cpu.max"), fmt.Sprintf("%s %d", text, period/time.Microsecond))
	}
	file := filepath.Join(g.dir, "cpu.cfs_quota_us")
	if cpus == 0 {
		return writeFile(file, "-1")
	}
	// In between no quota may be greater, in processors, than that of the group above.
	if text, err := readText(filepath.Join(g.dir, "cpu.cfs_period_us")); err != nil || text != strconv.FormatInt(int64(period/time.Microsecond), 10) {
		if err := writeFile(file, "-1"); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(g.dir, "cpu.cfs_period_us"), strconv.FormatInt(int64(period/time.Microsecond), 10)); err != nil {
			return err
		}
	}
	return writeFile(file, strconv.FormatInt(micros, 10))
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
