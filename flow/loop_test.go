package flow

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// machine is a simple model of a machine with builds and a foreground, in
// processor seconds per second.
type machine struct {
	processors, workers float64
	foreground          float64 // what it runs
	others              float64 // processes
	// self is how much the foreground waits for itself, hurt how much more it does
	// if builds have all processors: parts of the time it runs.
	self, hurt float64
	// commit is what a commit takes, slower how much longer it does if builds have
	// all processors.
	commit time.Duration
	slower float64
	noise  float64
	rng    *rand.Rand
	// statements is how many end in an interval, each of which takes statement, and tail times as long in the mean if builds have
	// all processors; took are those so far. target is the target of 99 of 100.
	statements        int
	statement, target time.Duration
	tail              float64
	took              []time.Duration

	c     Controller
	now   time.Time
	share float64
}

func newMachine(seed uint64) *machine {
	m := &machine{
		processors: 2, workers: 2, self: 0.1, hurt: 0.5, commit: 2 * time.Millisecond, slower: 0.5,
		rng: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_700_000_000, 0),
	}
	m.share = m.c.Begin(m.now, Signals{Processors: 2, Commits: 1000, CommitTime: 1000 * m.commit}).Share
	return m
}

// builds is what builds run.
func (m *machine) builds() float64 {
	return min(m.share*m.workers, max(0.05, m.processors-m.foreground-m.others))
}

func (m *machine) vary(x float64) float64 { return x * math.Exp(m.noise*m.rng.NormFloat64()) }

// step lets an interval pass.
func (m *machine) step() float64 {
	s := m.signals()
	m.share = m.c.Observe(m.now, s).Share
	return m.share
}

// signals are those of the next interval.
func (m *machine) signals() Signals {
	m.now = m.now.Add(Interval)
	part := m.builds() / m.processors
	seconds := func(x float64) time.Duration { return time.Duration(x * float64(Interval)) }
	s := Signals{
		Elapsed: Interval, Processors: int(m.processors),
		Statements: time.Duration(2 * m.foreground * float64(time.Second)),
		Foreground: ThreadTime{Run: seconds(m.foreground), Wait: seconds(m.vary(m.foreground * (m.self + m.hurt*part)))},
		Builds:     seconds(m.builds()), Busy: seconds(m.builds() + m.foreground + m.others),
		Commits: int64(20 * m.foreground),
	}
	s.CommitTime = time.Duration(float64(s.Commits) * m.vary(float64(m.commit)*(1+m.slower*part)))
	s.Target = m.target
	for range m.statements {
		took := time.Duration(float64(m.statement) * (1 + m.tail*m.rng.ExpFloat64()*part*part))
		s.Latencies.add(took)
		m.took = append(m.took, took)
	}
	return s
}

// run lets time pass and returns the least, the greatest and the mean share.
func (m *machine) run(d time.Duration) (least, most, mean float64) {
	least = 1
	n := 0
	for ; d > 0; d -= Interval {
		share := m.step()
		least, most, mean, n = min(least, share), max(most, share), mean+share, n+1
	}
	return least, most, mean / float64(n)
}

// slowdown is how much longer the foreground needs because of builds.
func (m *machine) slowdown() float64 { return m.hurt * m.builds() / m.processors / (1 + m.self) }

func TestTheWholeMachineWhenAlone(t *testing.T) {
	m := newMachine(1)
	least, _, _ := m.run(time.Minute)
	require.Equal(t, 1.0, least)
}

// TestYieldsWithinASecond: a foreground that begins is not slowed down much a
// second later, whichever way it is hurt, and when it ends the build has everything
// again within two.
func TestYieldsWithinASecond(t *testing.T) {
	for name, set := range map[string]func(*machine){
		"processors":    func(m *machine) { m.hurt, m.slower = 3, 0 },
		"a lot":         func(m *machine) { m.hurt, m.slower = 40, 0 },
		"commits":       func(m *machine) { m.hurt, m.slower = 0, 3 },
		"all of it":     func(m *machine) { m.hurt, m.slower = 2, 8 },
		"eight of them": func(m *machine) { m.processors, m.workers, m.hurt = 8, 8, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(1)
			set(m)
			m.run(3 * time.Second)
			require.Equal(t, 1.0, m.share)

			m.foreground = 0.4 * m.processors
			m.run(time.Second)
			require.Less(t, m.share, 0.7)
			m.run(4 * time.Second)
			slower := 1 + m.slower*m.builds()/m.processors
			require.True(t, m.share <= 2*MinShare || (m.slowdown() < 2.5*maxSlowdown && slower < 2), "share %.2f: slowdown %.2f, commits x%.2f", m.share, m.slowdown(), slower)

			m.foreground = 0
			m.run(2 * time.Second)
			require.Equal(t, 1.0, m.share)
		})
	}
}

// TestMinShareOfProgress: under any signals a build goes on.
func TestMinShareOfProgress(t *testing.T) {
	seed := randtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var c Controller
	now := time.Unix(0, 0)
	upTo := func(d time.Duration) time.Duration {
		return time.Duration(rng.Int64N(int64(d)) >> rng.IntN(40))
	}
	for range 20_000 {
		s := Signals{
			Elapsed: upTo(time.Minute), Processors: rng.IntN(65), Statements: upTo(time.Minute),
			Foreground: ThreadTime{upTo(time.Minute), upTo(time.Minute)}, Builds: upTo(time.Minute), Busy: upTo(time.Minute),
			Commits: rng.Int64N(1000), CommitTime: upTo(time.Minute), Target: upTo(time.Minute),
		}
		for range rng.IntN(300) {
			s.Latencies.add(upTo(time.Minute))
		}
		now = now.Add(s.Elapsed)
		d := Full
		if rng.IntN(50) == 0 {
			d = c.Begin(now, s)
		} else {
			d = c.Observe(now, s)
		}
		require.GreaterOrEqual(t, d.Share, MinShare)
		require.LessOrEqual(t, d.Share, 1.0)
		require.Equal(t, d.Share < 1, d.Reason != "", "%+v", d)
	}
}

// TestSettles: beside a foreground that stays as it is, so does the share.
func TestSettles(t *testing.T) {
	for name, set := range map[string]func(*machine){
		"processors": func(m *machine) { m.hurt, m.slower = 3, 0 },
		"commits":    func(m *machine) { m.hurt, m.slower = 0, 3 },
		"both":       func(m *machine) { m.hurt, m.slower = 2, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(1)
			m.foreground = 0.8
			set(m)
			m.run(10 * time.Second)
			least, most, _ := m.run(20 * time.Second)
			require.Less(t, most/least, 1.25, "%.2f to %.2f", least, most)
			require.Greater(t, least, 1.5*MinShare)
		})
	}
}

// TestNoiseDoesNotMoveMuch: signals that vary by half move the share around a
// mean that is as it is without noise.
func TestNoiseDoesNotMoveMuch(t *testing.T) {
	seed := randtest.Seed(t)
	means := make(map[float64]float64)
	for _, noise := range []float64{0, 0.5} {
		m := newMachine(seed)
		m.foreground, m.hurt, m.noise = 0.8, 3, noise
		m.run(10 * time.Second)
		_, _, means[noise] = m.run(2 * time.Minute)
	}
	require.InDelta(t, means[0], means[0.5], 0.6*means[0])
}

// TestOthersAreNotTheBuilds: beside processes that keep the processors busy, and
// a foreground that waits for those, the build keeps a part.
func TestOthersAreNotTheBuilds(t *testing.T) {
	m := newMachine(1)
	m.foreground, m.others, m.self, m.hurt, m.slower = 0.3, 1.6, 5, 1, 0
	_, _, _ = m.run(5 * time.Second)
	_, _, mean := m.run(10 * time.Second)
	require.Greater(t, mean, 0.5)
}
