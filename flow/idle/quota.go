package idle

import (
	"os"
	"time"
)

// Quota keeps a process from using up the quota of processor time of the groups that it is in. It is not safe for concurrent use.
type Quota struct {
	tree
	pid int
	// cpu returns the processor time of the process.
	cpu func() (time.Duration, error)

	at     time.Time
	ran    time.Duration
	share  float64
	groups map[string]*measuredGroup
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
	// Quota and Budget are those of the tightest group, in processors: its quota, and what is left of it for the process.
	Quota, Budget float64
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
	for _, g := range groups {
		cpus, err := g.quota()
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
		}
		if !d.Limited || budget < d.Budget {
			d.Quota, d.Budget = cpus, budget
		}
		d.Limited, d.Share = true, min(d.Share, share)
	}
	q.at, q.ran, q.groups, q.share = now, ran, seen, d.Share
	return d, nil
}
