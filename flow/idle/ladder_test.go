package idle

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// shares returns samples of half a second each, in which a process gets and wants parts of a processor.
func shares(n int, got, wanted float64) (samples []ShareSample) {
	for range n {
		run, all := got*float64(KeeperInterval), wanted*float64(KeeperInterval)
		samples = append(samples, ShareSample{Elapsed: KeeperInterval, Run: time.Duration(run), Wait: time.Duration(all - run)})
	}
	return samples
}

// TestLadder shows what is decided from which samples.
func TestLadder(t *testing.T) {
	for _, test := range []struct {
		name    string
		from    Ladder
		samples []ShareSample
		want    int
		starved bool
	}{
		{"it runs freely", Ladder{}, shares(20, 2, 2), 0, false},
		{"it waits, but gets its share", Ladder{}, shares(20, 0.11, 2), 0, false},
		{"it wants little", Ladder{}, shares(20, 0.05, 0.15), 0, false},
		{"it starves for less than two seconds", Ladder{}, shares(3, 0.01, 2), 0, false},
		{"it starves", Ladder{}, shares(4, 0.01, 2), 3, false},
		{"it nearly has its share", Ladder{level: 4}, shares(2, 0.09, 2), 5, false},
		{"half of it", Ladder{level: 4}, shares(2, 0.05, 2), 6, false},
		{"it gets nothing at all", Ladder{level: 4}, shares(2, 0, 1), 7, false},
		{"it starves on", Ladder{}, shares(10, 0, 1), 11, false},
		{"at the top", Ladder{level: 11}, shares(4, 0, 1), 11, true},
		{"the kernel refuses all levels", Ladder{locked: maxLevel}, shares(4, 0, 1), 0, true},
		{"the kernel refuses some", Ladder{level: 2, locked: maxLevel - 3}, shares(2, 0, 1), 3, false},
		{"it has more than its share, not enough for a level less", Ladder{level: 4}, shares(20, 0.25, 2), 4, false},
		{"enough for a level less", Ladder{level: 4}, shares(4, 0.27, 2), 3, false},
		{"enough for a level less, not for class idle", Ladder{level: 1}, shares(4, 0.7, 2), 1, false},
		{"for less than two seconds", Ladder{level: 4}, shares(3, 1, 1), 4, false},
		{"it has two processors", Ladder{level: 6}, shares(4, 2, 2), 3, false},
		{"class idle is enough", Ladder{level: 1}, shares(4, 1, 1), 0, false},
		{"it wants nothing any more", Ladder{level: 5}, shares(8, 0, 0), 0, false},
		{"it could not be raised again", Ladder{level: 4, locked: maxLevel - 4, floor: 4}, shares(8, 0, 0), 4, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := test.from
			var p Progress
			for _, s := range test.samples {
				p = l.Observe(s)
			}
			require.Equal(t, test.want, p.Level)
			require.Equal(t, test.starved, p.Starved)
		})
	}
}

// simulated is a machine, whose processors are divided in proportion to weights as a kernel does.
type simulated struct {
	rng *rand.Rand
	// others is the weight of the others on each processor.
	others []float64
	// threads are those of the process, all of them busy.
	threads int
	// grouped says that they have one weight together on each processor, not one each.
	grouped bool
	// lowest is the weight of class idle, first that of level 1.
	lowest, first float64
}

// run returns what the process does in some time at a level.
func (m *simulated) run(level int, d time.Duration) ShareSample {
	weight := m.lowest
	if level > 0 {
		weight = m.first * weightOf(level)
	}
	s := ShareSample{Elapsed: d}
	for cpu, others := range m.others {
		threads := m.threads / len(m.others)
		if cpu < m.threads%len(m.others) {
			threads++
		}
		if threads == 0 {
			continue
		}
		w := weight
		if !m.grouped {
			w *= float64(threads)
		}
		run := time.Duration(w / (w + others) * float64(d))
		if others > 0 {
			// The kernel gives slices, of which a part is one or none.
			const slice = 3 * time.Millisecond
			whole := run / slice * slice
			if m.rng.Float64() < float64(run-whole)/float64(slice) {
				whole += slice
			}
			run = min(whole, d)
		}
		s.Run += run
		s.Wait += time.Duration(threads)*d - run
	}
	return s
}

// change changes what others do: nothing, usual threads or some of the highest priority.
func (m *simulated) change() {
	const usual, highest = 1024, 88761
	for cpu := range m.others {
		switch m.rng.IntN(5) {
		case 0:
			m.others[cpu] = 0
		case 1:
			m.others[cpu] = m.rng.Float64() * usual
		case 2, 3:
			m.others[cpu] = float64(m.rng.IntN(40)) * usual
		default:
			m.others[cpu] = float64(m.rng.IntN(4)) * highest
		}
	}
}

// TestLadderHoldsLeastShareOnAnyMachine: in simulations the process is never below its least share for more than some seconds
// while a level could change that, no matter what others do, and it is back in class idle seconds after they have ended.
func TestLadderHoldsLeastShareOnAnyMachine(t *testing.T) {
	const (
		maxStarving = 10 * time.Second
		maxRaised   = 18 * time.Second
	)
	rng := randtest.Rand(t)
	var worst, longest time.Duration
	for range 300 {
		m := &simulated{rng: rng, others: make([]float64, 1+rng.IntN(4)), threads: 1 + rng.IntN(4), grouped: rng.IntN(2) == 0, lowest: 3, first: 15}
		if rng.IntN(2) == 0 {
			m.lowest, m.first = 15, 29 // as an autogroup
		}
		var l Ladder
		var starving, raised, until time.Duration
		for now := time.Duration(0); now < 5*time.Minute; {
			if now >= until {
				m.change()
				until = now + time.Duration(rng.ExpFloat64()*float64([]time.Duration{time.Second, 5 * time.Second, 30 * time.Second}[rng.IntN(3)]))
			}
			d := KeeperInterval/2 + time.Duration(rng.Int64N(int64(KeeperInterval)))
			s := m.run(l.level, d)
			level := l.level
			l.Observe(s)
			now += d
			if s.Run >= time.Duration(LeastShare*float64(d)) || level == maxLevel {
				starving = 0
			} else {
				starving += d
			}
			free := true
			for _, others := range m.others {
				free = free && others == 0
			}
			if !free || l.level == 0 {
				raised = 0
			} else {
				raised += d
			}
			worst, longest = max(worst, starving), max(longest, raised)
			require.LessOrEqual(t, starving, maxStarving, "%+v at level %d", m, l.level)
			require.LessOrEqual(t, raised, maxRaised, "%+v at level %d", m, l.level)
		}
	}
	t.Logf("at most %s below %.0f%%, %s raised on a free machine", worst, 100*LeastShare, longest)
}

// TestLadderSettles: beside a constant load the level does not swing.
func TestLadderSettles(t *testing.T) {
	rng := randtest.Rand(t)
	for range 200 {
		m := &simulated{rng: rng, others: []float64{float64(1+rng.IntN(60)) * 1024}, threads: 1, lowest: 3, first: 15}
		var l Ladder
		changes := 0
		for i := range 600 {
			before := l.level
			l.Observe(m.run(l.level, KeeperInterval))
			if i > 60 && l.level != before {
				changes++
			}
		}
		require.LessOrEqual(t, changes, 4, "%v: level %d", m.others, l.level)
	}
}
