package flow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fullBeside lets builds have everything beside statements.
var fullBeside = Decision{Share: 1, Foreground: true}

// observed is what a busy foreground beside a build that does not hurt it gives.
func observed(change func(*Signals)) Signals {
	s := Signals{
		Elapsed: Interval, Processors: 2, Statements: 500 * time.Millisecond,
		Foreground: ThreadTime{Run: 60 * time.Millisecond, Wait: 3 * time.Millisecond},
		Builds:     100 * time.Millisecond, Busy: 180 * time.Millisecond,
		Commits: 10, CommitTime: 10 * time.Millisecond,
	}
	if change != nil {
		change(&s)
	}
	return s
}

// settle gives a controller the same signals for a while, from a share of one on.
func settle(c *Controller, s Signals, d time.Duration) (last Decision) {
	now := time.Unix(0, 0)
	for t := time.Duration(0); t <= d; t += s.Elapsed {
		last = c.Observe(now.Add(t), s)
	}
	return last
}

// full returns a controller that lets builds have everything.
func full() *Controller {
	c := new(Controller)
	c.Begin(time.Unix(0, 0), observed(func(s *Signals) {
		s.Statements = 0
		s.Commits, s.CommitTime = 100, 100*time.Millisecond
	}))
	return c
}

func TestReasons(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Signals)
		reason Reason // empty: builds go on as they are
	}{
		{"nothing hurts", nil, ""},
		{"threads wait", func(s *Signals) { s.Foreground.Wait = 200 * time.Millisecond }, Processors},
		{"threads wait a little", func(s *Signals) { s.Foreground.Wait = 40 * time.Millisecond }, ""},
		{"threads wait for each other", func(s *Signals) {
			s.Foreground.Run, s.Foreground.Wait = 195*time.Millisecond, 300*time.Millisecond
			s.Builds, s.Busy = 5*time.Millisecond, 200*time.Millisecond
		}, ""},
		{"threads wait for other processes", func(s *Signals) {
			s.Foreground.Run, s.Foreground.Wait = 20*time.Millisecond, 300*time.Millisecond
			s.Builds, s.Busy = 10*time.Millisecond, 200*time.Millisecond
		}, ""},
		{"threads wait, builds do not run", func(s *Signals) {
			s.Foreground.Wait, s.Builds = 200*time.Millisecond, 0
		}, ""},
		{"a client polls", func(s *Signals) {
			s.Statements = 20 * time.Millisecond
			s.Foreground = ThreadTime{Run: 200 * time.Microsecond, Wait: 200 * time.Microsecond}
			s.Commits, s.CommitTime = 0, 0
		}, ""},
		{"there are no statements", func(s *Signals) {
			s.Statements = 5 * time.Millisecond
			s.Foreground.Wait = time.Second
		}, ""},
		{"commits are slow", func(s *Signals) { s.CommitTime = 40 * time.Millisecond }, CommitLatency},
		{"commits are a little slower", func(s *Signals) { s.CommitTime = 15 * time.Millisecond }, ""},
		{"commits are slow, but most of what statements do is not", func(s *Signals) {
			s.Statements, s.Commits, s.CommitTime = 300*time.Millisecond, 2, 4400*time.Microsecond
		}, ""},
		{"commits are slow, builds hardly run", func(s *Signals) {
			s.CommitTime, s.Builds = 18*time.Millisecond, 10*time.Millisecond
		}, ""},
		{"one commit was slow", func(s *Signals) { s.Commits, s.CommitTime = 1, 40*time.Millisecond }, ""},
		{"the processors are not known", func(s *Signals) {
			s.Foreground, s.Builds, s.Busy = ThreadTime{}, 0, 0
			s.CommitTime = 40 * time.Millisecond
		}, CommitLatency},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := full()
			s := observed(tc.change)
			d := settle(c, s, 700*time.Millisecond)
			require.Equal(t, tc.reason, d.Reason)
			require.Equal(t, active(s), d.Foreground)
			if tc.reason == "" {
				require.EqualValues(t, 1, d.Share)
			} else {
				require.Less(t, d.Share, 0.6)
			}
		})
	}
}

// TestBuildsBeginCarefully: beside a foreground a build does not begin by hurting
// it; without one it has everything at once.
func TestBuildsBeginCarefully(t *testing.T) {
	now := time.Unix(0, 0)
	quiet := observed(func(s *Signals) { s.Statements = 0 })
	hurt := observed(func(s *Signals) { s.Foreground.Wait = 500 * time.Millisecond })

	c := new(Controller)
	require.Equal(t, Full, c.Begin(now, quiet))
	require.InDelta(t, 0.75, new(Controller).Begin(now, observed(nil)).Share, 0.01, "what statements leave")
	busy := observed(func(s *Signals) { s.Statements = 8 * time.Second })
	require.InDelta(t, 0.5, new(Controller).Begin(now, busy).Share, 0.01)

	learned := settle(c, hurt, 2*time.Second).Share
	require.InDelta(t, MinShare, learned, 0.01)
	require.InDelta(t, learned, c.Begin(now.Add(time.Minute), hurt).Share, 0.01, "as it was before")
	require.Equal(t, Full, c.Begin(now.Add(time.Minute), quiet))
	require.InDelta(t, 0.75, c.Begin(now.Add(time.Hour), hurt).Share, 0.01, "that was long ago")

	unhurt := full()
	require.Equal(t, fullBeside, settle(unhurt, observed(nil), 2*time.Second))
	require.Equal(t, fullBeside, unhurt.Begin(now.Add(time.Minute), observed(nil)), "nothing is held up, so there is no reason for it")
}

// TestYieldingThatDoesNotHelpEnds: commits that stay slow while builds hardly
// run have another cause.
func TestYieldingThatDoesNotHelpEnds(t *testing.T) {
	c := full()
	slow := observed(func(s *Signals) { s.CommitTime = 80 * time.Millisecond })
	require.InDelta(t, MinShare, settle(c, slow, time.Second).Share, 0.01)
	require.Equal(t, fullBeside, settle(c, slow, 20*time.Second))
}

// TestALightForegroundHasALightClaim: what hardly uses the machine does not hold
// builds up for long, even if each of its statements takes longer.
func TestALightForegroundHasALightClaim(t *testing.T) {
	shareBeside := func(run time.Duration) float64 {
		return settle(full(), observed(func(s *Signals) { s.Foreground = ThreadTime{Run: run, Wait: 3 * run} }), 3*time.Second).Share
	}
	require.InDelta(t, 0.4, shareBeside(10*time.Millisecond), 0.01, "a twentieth of two processors")
	require.InDelta(t, 0.2, shareBeside(30*time.Millisecond), 0.01)
	require.InDelta(t, MinShare, shareBeside(60*time.Millisecond), 0.01)
}

func TestLateSignalsDoNotOverdo(t *testing.T) {
	c := full()
	d := c.Observe(time.Unix(0, 0), observed(func(s *Signals) {
		s.Elapsed, s.Foreground.Wait, s.Builds, s.Busy = time.Minute, time.Minute, time.Minute, 2*time.Minute
	}))
	require.GreaterOrEqual(t, d.Share, 0.12)
}

// TestStatementsThatSleep: workers need not yield to statements that wait for
// something else than a processor.
func TestStatementsThatSleep(t *testing.T) {
	for _, tc := range []struct {
		name       string
		statements time.Duration
		foreground ThreadTime
		asleep     int
	}{
		{"a busy server", 900 * time.Millisecond, ThreadTime{Run: 55 * time.Millisecond}, 0},
		{"more statements than processors", 6 * time.Second, ThreadTime{Run: 170 * time.Millisecond, Wait: 400 * time.Millisecond}, 0},
		{"two that sleep", 2 * time.Second, ThreadTime{Run: time.Millisecond}, 2},
		{"two that sleep beside a busy server", 2900 * time.Millisecond, ThreadTime{Run: 55 * time.Millisecond}, 1},
		{"many that wait for a slow disk", 8 * time.Second, ThreadTime{Run: 50 * time.Millisecond}, 6},
	} {
		d := settle(full(), observed(func(s *Signals) { s.Statements, s.Foreground = tc.statements, tc.foreground }), time.Second)
		require.Equal(t, tc.asleep, d.OffCPU, tc.name)
	}
}
