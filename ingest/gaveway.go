package ingest

import (
	"sync"
	"time"

	"fastddl/event"
	"fastddl/flow"
)

const (
	// shownPart is the part of its workers' time from which on a job is shown as
	// giving way.
	shownPart = 0.05
	// shownTime is the time that part is taken of.
	shownTime = time.Second
)

// gaveWay sums for how long a job's workers have given way to the foreground, and
// tells of it from time to time. The zero value is ready to use.
type gaveWay struct {
	mu       sync.Mutex
	reason   flow.Reason
	waited   time.Duration // since reported
	reported time.Time

	// since is when the part of shownTime began in which the workers put themselves
	// aside for current; before is for how long they did in the one before.
	since           time.Time
	before, current time.Duration
}

func (g *gaveWay) add(s *Share, reason flow.Reason, waited time.Duration) {
	if waited == 0 {
		return
	}
	now := time.Now()
	g.mu.Lock()
	if g.reported.IsZero() {
		g.reported = now
	}
	g.reason, g.waited = reason, g.waited+waited
	if reason == flow.Statements {
		g.turn(now)
		g.current += waited
	}
	due := now.Sub(g.reported) >= throttleReport
	g.mu.Unlock()
	if due {
		g.report(s)
	}
}

// turn begins the next part of shownTime when it is due.
func (g *gaveWay) turn(now time.Time) {
	switch past := now.Sub(g.since); {
	case past < shownTime:
		return
	case past < 2*shownTime:
		g.before = g.current
	default:
		g.before = 0
	}
	g.since, g.current = now, 0
}

func (g *gaveWay) report(s *Share) {
	g.mu.Lock()
	reason, waited := g.reason, g.waited
	g.waited, g.reported = 0, time.Now()
	g.mu.Unlock()
	if waited > 0 {
		s.opts.Bus.Emit(event.Throttled{Job: event.Job{ID: s.opts.JobID}, Reason: "foreground: " + string(reason), For: waited})
	}
}

// aside reports whether so many workers have lately put themselves aside for more
// than shownPart of their time.
func (g *gaveWay) aside(workers int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn(time.Now())
	return float64(max(g.before, g.current)) >= shownPart*float64(shownTime)*float64(workers)
}

// waitForForeground is what the job is shown to wait for under a decision, empty
// if for nothing.
func (s *Share) waitForForeground(d flow.Decision) string {
	reason := d.Reason
	if d.Share >= 1-shownPart && !d.HoldImports {
		if !s.gaveWay.aside(s.workers) {
			return ""
		}
		reason = flow.Statements
	}
	return "giving way to foreground: " + string(reason)
}
