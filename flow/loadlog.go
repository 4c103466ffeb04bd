package flow

import (
	"sync"
	"time"
)

// maxLoadPoints bounds a LoadLog: ten minutes of points of two seconds.
const maxLoadPoints = 300

// LoadPoint is what a server did in a short time.
type LoadPoint struct {
	// Until is the end of the time, Took its length.
	Until time.Time
	Took  time.Duration
	// Latencies are of the statements of clients that have ended, Running is how many ran at the end.
	Latencies Latencies
	Running   int
	// Builds is how many index builds ran at the end, and RowsPerSecond what they read together.
	Builds        int
	RowsPerSecond float64
}

// LoadLog keeps the last points. The zero value has none.
type LoadLog struct {
	mu     sync.Mutex
	points []LoadPoint
	all    Latencies
	last   time.Time
}

// Observe adds a point that lasts from the last observation to now; the first one adds none. all are the latencies of all statements so
// far.
func (l *LoadLog) Observe(now time.Time, all Latencies, running, builds int, rowsPerSecond float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() {
		if len(l.points) == maxLoadPoints {
			l.points = append(l.points[:0], l.points[1:]...)
		}
		l.points = append(l.points, LoadPoint{
			Until: now, Took: now.Sub(l.last), Latencies: all.Since(l.all), Running: running, Builds: builds, RowsPerSecond: rowsPerSecond,
		})
	}
	l.all, l.last = all, now
}

// Points returns the points, the oldest first.
func (l *LoadLog) Points() []LoadPoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]LoadPoint(nil), l.points...)
}
