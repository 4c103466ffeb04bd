package flow

import "time"

const (
	// pollInterval is how often a task that waits looks at the statements. A statement is
	// a few times as long.
	pollInterval = 50 * time.Microsecond
	// maxYield bounds for how long a task waits at a time, and how much waiting that it
	// did not have to do it may do later.
	maxYield = 5 * time.Millisecond
)

// BackgroundTask is work in the background that yields to statements: it calls Yield
// every few hundred microseconds, where it holds nothing that others need. So it
// leaves the processors to the foreground, and the operating system does not preempt it
// while it does hold something. It is used by one goroutine.
type BackgroundTask struct {
	Meter *StatementMeter // nil yields to nothing
	// MinShare is the part of the time that the task has however busy the server is,
	// above 0, up to 1.
	MinShare float64
	// Sleep waits; nil keeps the thread meanwhile.
	Sleep func(time.Duration)

	began  time.Time     // when its work since the last Yield began
	credit time.Duration // for how long it may wait
}

// Yield waits until at most beside statements run, but no longer than MinShare leaves,
// and returns for how long. It keeps its thread, and so does without Go's scheduler,
// which would take longer than most statements to park the goroutine and to wake it.
func (t *BackgroundTask) Yield(beside int) (waited time.Duration) {
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
	for waited < t.credit && t.Meter.Executing() > beside {
		wait(pollInterval)
		waited = time.Since(now)
	}
	t.credit -= waited
	t.began = now.Add(waited)
	return waited
}
