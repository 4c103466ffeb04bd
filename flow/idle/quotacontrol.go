package idle

import "time"

const (
	// QuotaInterval is the time between two samples of a quota.
	QuotaInterval = 100 * time.Millisecond
	// QuotaCeiling is the part of a quota that a process and all others in the group are to use at most.
	QuotaCeiling = 0.85
	// MinQuotaShare is the part of the time that the process may run at least.
	MinQuotaShare = 0.1

	// othersDecay: what others used at most is forgotten by this part in an interval, since statements arrive in bursts.
	othersDecay = 0.1
	// demandDecay is the same of what the process would use.
	demandDecay = 0.05
	// quotaCut is the factor by which the ceiling falls when the kernel has stopped the group, minQuotaCut the least that remains of it,
	// quotaRecovery the factor by which it rises in each interval without: to twice in 7 s.
	quotaCut, minQuotaCut, quotaRecovery = 0.5, 0.05, 1.01
	// cutPause is the time after which a decision must have had its effect, so that the next cut may follow.
	cutPause = 500 * time.Millisecond
)

// QuotaSample is what a group with a quota did in some time. Times are seconds of a processor.
type QuotaSample struct {
	Elapsed time.Duration
	// Quota is in processors.
	Quota float64
	// Used is the time of all in the group, Process that of the process whose share is controlled.
	Used, Process time.Duration
	// Throttled is the number of periods in which the kernel stopped the group.
	Throttled uint64
	// Workers is the number of threads of the process that may be busy.
	Workers int
	// Share is the part of the time that they were allowed to run.
	Share float64
}

// QuotaControl decides how much a process may use in a group with a quota, so that the kernel does not stop the group. Its zero
// value has seen nothing.
type QuotaControl struct {
	// others and demand are decaying maxima, in processors: the use of the others, and what the process would use without a limit.
	others, demand float64
	// cut is a factor for the ceiling in (0, 1]. 0 is taken for 1.
	cut float64
	// sinceCut is the time since the last cut, or the first sample.
	sinceCut time.Duration
}

// Observe takes a sample and returns, in processors, what the process may use. It may be negative: others use more than the
// ceiling.
func (c *QuotaControl) Observe(s QuotaSample) (budget float64) {
	if c.cut == 0 {
		c.cut = 1
	}
	used := s.Process.Seconds() / s.Elapsed.Seconds()
	others := max(0, (s.Used-s.Process).Seconds()/s.Elapsed.Seconds())
	c.others = max(others, c.others+othersDecay*(others-c.others))
	switch c.sinceCut += s.Elapsed; {
	case s.Throttled == 0:
		c.cut = min(1, c.cut*quotaRecovery)
	case c.sinceCut > cutPause:
		c.cut, c.sinceCut = max(minQuotaCut, c.cut*quotaCut), 0
	}
	budget = s.Quota*QuotaCeiling*c.cut - c.others
	workers := float64(s.Workers)
	demand := workers // of a process that does little now, but may begin
	if share := max(MinQuotaShare, min(1, s.Share)); used > 0.1*share*workers {
		demand = min(workers, used/share)
	}
	c.demand = max(demand, c.demand+demandDecay*(demand-c.demand))
	return budget
}

// Share returns the part of the time that the workers may run in order to use a budget, in [MinQuotaShare, 1].
func (c *QuotaControl) Share(budget float64) float64 {
	if budget >= c.demand {
		return 1
	}
	return max(MinQuotaShare, budget/c.demand)
}
