package flow

import "time"

const (
	// pollInterval is how often a waiting task reads the number of statements that run. A statement
	// takes a few times as long.
	pollInterval = 50 * time.Microsecond
	// maxYield bounds a task's credit: how long it may wait at a time, and how much unused
	// waiting time it may save for later.
	maxYield = 5 * time.Millisecond
)

// BackgroundTask is work in the background that yields to statements: it calls Yield
// every few hundred microseconds, where it holds nothing that others need. So it
// leaves the processors to the foreground, and the operating system does not preempt it
// while it does hold something. One goroutine uses it.
type BackgroundTask struct {
	Meter *StatementMeter // nil yields to nothing
	// MinShare is the part of the time, in (0, 1], that the task runs however busy the server is.
	MinShare float64
	// Sleep waits; nil sleeps in the operating system and keeps the thread.
	Sleep func(time.Duration)

	began  time.Time     // when its work since the last Yield began
	credit time.Duration // how long it may wait
}

// Yield waits until at most maxStatements run, but no longer than MinShare allows, and
// returns how long it waited. Without Sleep it keeps its thread: Go's scheduler would take
// longer than most statements to park the goroutine and to wake it.
func (t *BackgroundTask) Yield(maxStatements int) (waited time.Duration) {
	if t.Meter == nil {
		return 0
	}
	now := time.Now()
	if !t.began.IsZero() {
		t.credit = min(maxYield, t.credit+time.Duration(float64(now.Sub(t.began))*(1/t.MinShare-1)))
	}
	wait := t.Sleep
	if wait == nil {
		wait = sleepThread
	}
	for waited < t.credit && t.Meter.Executing() > maxStatements {
		wait(pollInterval)
		waited = time.Since(now)
	}
	t.credit -= waited
	t.began = now.Add(waited)
	return waited
}
