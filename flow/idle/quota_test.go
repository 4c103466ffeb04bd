package idle

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// quotaSample is a sample of a tenth of a second in a group with a quota of one processor.
func quotaSample(others, process, share float64, throttled uint64) QuotaSample {
	interval := float64(QuotaInterval)
	return QuotaSample{
		Elapsed: QuotaInterval, Quota: 1, Used: time.Duration((others + process) * interval), Process: time.Duration(process * interval),
		Throttled: throttled, Workers: 2, Share: share,
	}
}

// TestQuotaControl shows what is decided.
func TestQuotaControl(t *testing.T) {
	var c QuotaControl
	share := func(s QuotaSample) float64 { return c.Share(c.Observe(s)) }
	require.InDelta(t, 0.85/2, share(quotaSample(0, 0, 1, 0)), 0.01, "two workers may begin at once")
	require.InDelta(t, 0.35/2, share(quotaSample(0.5, 0.8, 0.4, 0)), 0.01, "others use half a processor")
	require.InDelta(t, MinQuotaShare, share(quotaSample(0.9, 0.2, 0.1, 0)), 0.001, "others use all")
	c = QuotaControl{}
	require.InDelta(t, 0.85/2, share(quotaSample(0, 0, 1, 0)), 0.01)
	require.Greater(t, share(quotaSample(0, 1, 1, 1)), 0.4, "the first decision has had no effect yet")
	for range 5 {
		c.Observe(quotaSample(0, 0.8, 0.4, 0))
	}
	require.Less(t, share(quotaSample(0, 1, 1, 1)), 0.25, "the kernel has stopped the group")
	require.Greater(t, share(quotaSample(0, 1, 1, 1)), 0.2, "once")
	for range 200 {
		c.Observe(quotaSample(0, 0.4, 0.4, 0))
	}
	require.InDelta(t, 0.85, share(quotaSample(0, 0.4, 0.4, 0)), 0.05, "the process has one busy thread, and is not stopped any more")
	c = QuotaControl{}
	share(quotaSample(0.5, 0.3, 0.2, 0))
	require.Less(t, share(quotaSample(0.1, 0.3, 0.2, 0)), 0.3, "a burst of others is remembered")
	c = QuotaControl{}
	s := quotaSample(0, 0.2, 1, 0)
	s.Quota = 8
	require.Equal(t, 1.0, share(s))
}

// quotaMachine is a group with a quota in steps of ten milliseconds.
type quotaMachine struct {
	*fakeTree
	version int
	rng     *rand.Rand
	quota   float64
	others  float64 // in processors, without a limit
	noise   float64
	threads float64 // busy threads of the process

	now           time.Duration
	left          float64 // of this period, in seconds
	used, process float64
	throttled     uint64
	stopped       bool
}

const quotaStep = 10 * time.Millisecond

// step runs both for a step; the process for a share of the time.
func (m *quotaMachine) step(share float64) {
	const stepsPerPeriod = 10
	n := int(m.now / quotaStep)
	if n%stepsPerPeriod == 0 {
		m.left, m.stopped = m.quota*0.1, false
		m.noise = 0.9 + 0.2*m.rng.Float64()
	}
	process := m.threads * share * quotaStep.Seconds()
	others := m.others * m.noise * quotaStep.Seconds()
	if part := m.left / max(1e-9, process+others); part < 1 {
		process, others = process*part, others*part
		if !m.stopped {
			m.stopped = true
			m.throttled++
		}
	}
	m.left -= process + others
	m.used += process + others
	m.process += process
	m.now += quotaStep
}

// create writes the files that do not change.
func (m *quotaMachine) create() {
	micros := int64(m.quota * 1e5)
	if m.version == 2 {
		m.write("sys/fs/cgroup/pod/cpu.max", fmt.Sprintf("%d 100000\n", micros))
		m.write("sys/fs/cgroup/pod/app/cpu.max", "max 100000\n")
		return
	}
	for group, quota := range map[string]int64{"pod": micros, "pod/app": -1} {
		m.write("sys/fs/cgroup/cpu,cpuacct/"+group+"/cpu.cfs_quota_us", fmt.Sprintf("%d\n", quota))
		m.write("sys/fs/cgroup/cpu,cpuacct/"+group+"/cpu.cfs_period_us", "100000\n")
	}
}

// publish writes the state where the kernel shows it.
func (m *quotaMachine) publish() {
	if m.version == 2 {
		m.write("sys/fs/cgroup/pod/cpu.stat", fmt.Sprintf("usage_usec %d\nnr_periods 9\nnr_throttled %d\n", int64(m.used*1e6), m.throttled))
		return
	}
	m.write("sys/fs/cgroup/cpu,cpuacct/pod/cpu.stat", fmt.Sprintf("nr_periods 9\nnr_throttled %d\n", m.throttled))
	m.write("sys/fs/cgroup/cpu,cpuacct/pod/cpuacct.usage", fmt.Sprintf("%d\n", int64(m.used*1e9)))
}

// newQuotaMachine has the process 1 in a group below the one with a quota, or in one of its own.
func newQuotaMachine(t *testing.T, rng *rand.Rand, own bool) (*quotaMachine, *Quota) {
	m := &quotaMachine{version: 1 + rng.IntN(2), rng: rng}
	group := "/pod/app"
	mount := map[int]string{1: "sys/fs/cgroup/cpu,cpuacct", 2: "sys/fs/cgroup"}[m.version]
	if own {
		group = "/pod/app/fastddl-worker-1-1"
	}
	m.fakeTree = newFakeTree(t, m.version, group)
	if own {
		dir := m.path(mount, group)
		require.NoError(t, os.Remove(dir))
		require.NoError(t, m.mkdir(dir))
	}
	m.quota = 0.3 + 3*rng.Float64()
	m.create()
	q := &Quota{tree: m.tree, pid: 1, cpu: func() (time.Duration, error) { return time.Duration(m.process * 1e9), nil }}
	return m, q
}

// TestQuotaIsKeptInSimulatedContainers: after the first second the kernel stops no container, unless others alone use what the least
// share of the process does not leave. Others' use varies by a tenth; a sudden change is seen within some tenths of a second.
func TestQuotaIsKeptInSimulatedContainers(t *testing.T) {
	rng := randtest.Rand(t)
	rounds := 0
	for began := time.Now(); time.Since(began) < randtest.Time(t, 2*time.Second, time.Minute); rounds++ {
		simulateQuota(t, rng, rng.IntN(2) == 0, rng.IntN(2) == 0)
	}
	t.Logf("%d containers", rounds)
}

// simulateQuota has a container for 20 s. Others use the same all the time if it is steady, and the process is then not kept
// from what is left.
func simulateQuota(t *testing.T, rng *rand.Rand, own, steady bool) {
	const (
		grace    = 500 * time.Millisecond
		settled  = 15 * time.Second
		duration = 20 * time.Second
	)
	m, q := newQuotaMachine(t, rng, own)
	var d QuotaDecision
	var settledAt float64
	var calm, changeAt, sampleAt time.Duration
	for m.now < duration {
		if m.now >= changeAt {
			m.others, m.threads = m.quota*rng.Float64()*1.1, float64(rng.IntN(9))
			calm = max(time.Second, m.now+grace)
			changeAt = m.now + time.Second + time.Duration(rng.ExpFloat64()*3e9)
			if steady {
				changeAt = duration
			}
		}
		if m.now >= sampleAt {
			m.publish()
			var err error
			d, err = q.Sample(time.Unix(0, int64(m.now)), 8)
			require.NoError(t, err)
			require.True(t, d.Limited)
			sampleAt += QuotaInterval/2 + time.Duration(rng.Int64N(int64(QuotaInterval)))
		}
		before := m.throttled
		m.step(d.Share)
		least := MinQuotaShare * m.threads
		if m.throttled > before && m.now > calm && 1.1*m.others+least < 0.95*m.quota {
			t.Fatalf("stopped at %s: quota %.2f, others %.2f, %v threads, own group %v, %+v", m.now, m.quota, m.others, m.threads, own, d)
		}
		if m.now == settled {
			settledAt = m.process
		}
	}
	if steady {
		used, left := (m.process-settledAt)/(duration-settled).Seconds(), QuotaCeiling*m.quota-1.1*m.others
		require.GreaterOrEqual(t, used, 0.75*min(left, m.threads), "quota %.2f, others %.2f, %v threads, own group %v, %+v", m.quota, m.others, m.threads, own, d)
	}
}

// TestTightestQuotaDecides: of several groups with quotas the one counts in which least is left. No quota is no limit.
func TestTightestQuotaDecides(t *testing.T) {
	m := newFakeTree(t, 2, "/pod/app")
	q := &Quota{tree: m.tree, pid: 1, cpu: func() (time.Duration, error) { return 0, nil }}
	now := time.Unix(100, 0)
	sample := func() QuotaDecision {
		now = now.Add(QuotaInterval)
		d, err := q.Sample(now, 2)
		require.NoError(t, err)
		return d
	}
	require.Equal(t, QuotaDecision{Share: 1}, sample())
	m.write("sys/fs/cgroup/pod/cpu.max", "100000 100000\n")
	m.write("sys/fs/cgroup/pod/cpu.stat", "usage_usec 5000000\nnr_throttled 3\n")
	require.InDelta(t, MinQuotaShare, sample().Share, 0.001, "nothing is known yet")
	d := sample()
	require.InDelta(t, 0.85, d.Budget, 0.01)
	require.Equal(t, 1.0, d.Quota)

	// The inner group has a greater quota, of which others use more.
	m.write("sys/fs/cgroup/pod/app/cpu.max", "400000 200000\n")
	m.write("sys/fs/cgroup/pod/app/cpu.stat", "usage_usec 1000000\nnr_throttled 0\n")
	sample()
	m.write("sys/fs/cgroup/pod/app/cpu.stat", "usage_usec 1160000\nnr_throttled 0\n")
	d = sample()
	require.Equal(t, 2.0, d.Quota)
	require.InDelta(t, 0.1, d.Budget, 0.01)

	m.write("sys/fs/cgroup/pod/cpu.max", "wrong\n")
	_, err := q.Sample(now.Add(QuotaInterval), 2)
	require.ErrorContains(t, err, "the period of control group")
}
