package flow

import "time"

const (
	// pollInterval is how often a guest looks. A statement is a few times as long.
	pollInterval = 50 * time.Microsecond
	// longestYield bounds what a guest waits for at a time, and what it may wait for
	// later because it did not have to before.
	longestYield = 5 * time.Millisecond
)

// Guest is work in the background that gives way to statements: it calls Yield
// every few hundred microseconds, where it holds nothing that others need. So it
// leaves the processors to the foreground and is not put aside by the operating
// system while it does hold something. It is used by one goroutine.
type Guest struct {
	Meter *Meter // nil gives way to nothing
	// Least is the part of the time that the guest has however much is asked of the
	// server, above 0, up to 1.
	Least float64
	// Sleep waits; nil keeps the thread meanwhile.
	Sleep func(time.Duration)

	began  time.Time     // its work since it last yielded
	credit time.Duration // that it may wait
}

// Yield waits until at most beside statements run, within what g has to give way,
// and returns for how long. It keeps its thread, and so does without Go's scheduler,
// which would take longer than most statements to put the goroutine aside and to
// bring it back.
func (g *Guest) Yield(beside int) (waited time.Duration) {
	if g.Meter == nil {
		return 0
	}
	now := time.Now()
	if !g.began.IsZero() {
		g.credit = min(longestYield, g.credit+time.Duration(float64(now.Sub(g.began))*(1/g.Least-1)))
	}
	wait := g.Sleep
	if wait == nil {
		wait = sleepThread
	}
	for waited < g.credit && g.Meter.Executing() > beside {
		wait(pollInterval)
		waited = time.Since(now)
	}
	g.credit -= waited
	g.began = now.Add(waited)
	return waited
}
