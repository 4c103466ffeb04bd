package idle

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Quota keeps a process from using up the quota of processor time of the groups that it is in. It is not safe for concurrent use.
type Quota struct {
	tree
	pid int
	// cpu returns the processor time of the process.
	cpu func() (time.Duration, error)

	at       time.Time
	ran      time.Duration
	share    float64
	groups   map[string]*measuredGroup
	enforced enforcedQuota
}

// measuredGroup is a group with a quota, as it was at the last sample.
type measuredGroup struct {
	control   QuotaControl
	used      time.Duration
	throttled uint64
}

// QuotaDecision is what a process may use from now on.
type QuotaDecision struct {
	// Limited says that there is a quota.
	Limited bool
	// Share is the part of the time that the workers of the process may run, in [MinQuotaShare, 1].
	Share float64
	// Enforced says that the kernel holds the process to Budget, by the quota of its own group, so that Share is 1.
	Enforced bool
	// Quota and Budget are those of the tightest group, in processors: its quota, and what is left of it for the process.
	Quota, Budget float64
	// Throttled is the number of periods since the last sample in which the kernel stopped a group.
	Throttled uint64
	// Refused says why the kernel does not hold the process, although it has a group of its own.
	Refused error
}

// String returns the decision as a line for a log.
func (d QuotaDecision) String() string {
	if !d.Limited {
		return "no quota"
	}
	text := fmt.Sprintf("%.2f of the quota of %.2f processors", d.Budget, d.Quota)
	if d.Enforced {
		return text + ", held by the kernel"
	}
	return text + fmt.Sprintf(", workers run %.0f%% of the time", 100*d.Share)
}

// NewQuota returns the quota of a process.
func NewQuota(pid int) *Quota {
	return &Quota{tree: kernel, pid: pid, cpu: func() (time.Duration, error) { return cpuTime(pid) }}
}

// Sample measures what was used since the last sample, and decides. Workers is the number of threads of the process that may be busy.
// The caller calls it each QuotaInterval while the process runs, and keeps the workers to the Share. It fails with os.ErrProcessDone
// if the process has ended.
func (q *Quota) Sample(now time.Time, workers int) (QuotaDecision, error) {
	d, err := q.sample(now, workers)
	if hasEnded(err) {
		err = os.ErrProcessDone
	}
	return d, err
}

func (q *Quota) sample(now time.Time, workers int) (QuotaDecision, error) {
	ran, err := q.cpu()
	if err != nil {
		return QuotaDecision{}, err
	}
	groups, err := q.quotaGroups(q.pid)
	if err != nil {
		return QuotaDecision{}, err
	}
	elapsed, process := now.Sub(q.at), ran-q.ran
	seen := make(map[string]*measuredGroup)
	d := QuotaDecision{Share: 1}
	var own *quotaGroup
	period, least := defaultPeriod, math.Inf(1)
	for i, g := range groups {
		if strings.HasPrefix(filepath.Base(g.dir), groupPrefix) {
			own = &groups[i]
			continue
		}
		cpus, groupPeriod, err := g.quota()
		if err != nil {
			return d, err
		}
		if cpus == 0 {
			continue
		}
		used, err := g.used(os.Getpid(), q.pid)
		if err != nil {
			return d, err
		}
		throttled, err := g.throttled()
		if err != nil {
			return d, err
		}
		m := &measuredGroup{used: used, throttled: throttled}
		seen[g.dir] = m
		// Until there is a sample the process does little.
		share, budget := MinQuotaShare, 0.0
		if before := q.groups[g.dir]; before != nil && elapsed > 0 {
			m.control = before.control
			budget = m.control.Observe(QuotaSample{
				Elapsed: elapsed, Quota: cpus, Used: used - before.used, Process: process,
				Throttled: throttled - before.throttled, Workers: workers, Share: q.share,
			})
			share = m.control.Share(budget)
			d.Throttled = max(d.Throttled, throttled-before.throttled)
		}
		if !d.Limited || budget < d.Budget {
			d.Quota, d.Budget, period = cpus, budget, groupPeriod
		}
		d.Limited, d.Share, least = true, min(d.Share, share), min(least, cpus)
	}
	if own != nil && (d.Limited || q.enforced.cpus > 0) {
		budget := 0.0 // none
		if d.Limited {
			budget = min(least, max(minEnforced, d.Budget)) // more than the group above has is refused
		}
		q.enforced.set(*own, now, budget, period)
		if d.Refused = q.enforced.refused; d.Refused == nil && d.Limited {
			d.Enforced, d.Share = true, 1
		}
	}
	q.at, q.ran, q.groups, q.share = now, ran, seen, d.Share
	return d, nil
}

// enforcedQuota is the quota of a process's own group. The kernel gives a group a whole new quota with each change, so changes
// are few.
type enforcedQuota struct {
	// cpus is in force, 0 for none.
	cpus float64
	at   time.Time
	// refused is why the kernel allows none.
	refused error
}

const (
	// minEnforced is the least that the kernel is asked for, in processors: with less a Keeper would raise the process.
	minEnforced = keptShare
	// Lower quotas are set at once, higher ones if they are so much higher and some time has passed.
	enforcedFall, enforcedRise = 0.95, 1.1
	enforcedPause              = 500 * time.Millisecond
)

// set sets the quota of a group in processors, or none if it is 0.
func (e *enforcedQuota) set(g quotaGroup, now time.Time, cpus float64, period time.Duration) {
	keep := cpus > enforcedFall*e.cpus && (cpus < enforcedRise*e.cpus || now.Sub(e.at) < enforcedPause)
	if e.refused != nil || (cpus > 0 && e.cpus > 0 && keep) {
		return
	}
	if e.refused = g.setQuota(cpus, period); e.refused == nil {
		e.cpus, e.at = cpus, now
	}
}
