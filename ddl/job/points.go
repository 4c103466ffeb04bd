package job

import (
	"slices"
	"time"
)

// Point is what a job has done in some seconds.
type Point struct {
	// Second is the end of the time, Seconds its length, in seconds since the job has begun and of its own.
	Second, Seconds float64
	// Stage is that at the end.
	Stage string
	// Rows were read, imported or read back, and Bytes sorted or imported.
	Rows, Bytes int64
	// P99 is the foreground's of the last minute, in milliseconds; 0 if there was none.
	P99 float64
}

const (
	// maxPoints is how many points a job has at most.
	maxPoints = 200
	// firstPoint is the length of points at first.
	firstPoint = 2 * time.Second
)

// Points are a job's throughput over time. When there are maxPoints, neighbours become one. The zero value is ready to use.
type Points struct {
	points []Point
	length time.Duration
	// rows, bytes and at are as of the last point.
	rows, bytes int64
	at          time.Duration
	// merges counts how often neighbours have become one. written are points that are durable, as of writtenMerges; taken
	// and takenMerges are those of the last call of Changed.
	merges, writtenMerges, takenMerges int
	written, taken                     int
}

// Resume begins with the points of an earlier process, in their order, and with what the job has done by then.
func (p *Points) Resume(points []Point, h History) {
	p.points, p.length = slices.Clone(points), firstPoint
	p.rows, p.bytes = done(h)
	for n := len(points); n > maxPoints/2; n /= 2 {
		p.length *= 2
	}
	if n := len(points); n > 0 {
		p.at = time.Duration(points[n-1].Second * float64(time.Second))
	}
	p.written = len(points)
}

// Observe takes what the job has done up to a time since it has begun.
func (p *Points) Observe(at time.Duration, stage string, h History) {
	if p.length == 0 {
		p.length = firstPoint
	}
	if at-p.at >= p.length {
		p.add(at, stage, h)
	}
}

// End takes what the job has done when it has ended.
func (p *Points) End(at time.Duration, stage string, h History) {
	n := len(p.points)
	switch {
	case at <= p.at:
	case n > 0 && at-p.at < time.Second: // points have whole seconds
		before := p.points[n-1]
		p.points, p.written = p.points[:n-1], min(p.written, n-1)
		p.at -= time.Duration(before.Seconds * float64(time.Second))
		p.rows, p.bytes = p.rows-before.Rows, p.bytes-before.Bytes
		p.add(at, stage, h)
	default:
		p.add(at, stage, h)
	}
}

func (p *Points) add(at time.Duration, stage string, h History) {
	rows, bytes := done(h)
	p.points = append(p.points, Point{
		Second: at.Seconds(), Seconds: (at - p.at).Seconds(), Stage: stage, Rows: rows - p.rows, Bytes: bytes - p.bytes, P99: h.Foreground.Now,
	})
	p.rows, p.bytes, p.at = rows, bytes, at
	if len(p.points) == maxPoints {
		p.merge()
	}
}

func (p *Points) merge() {
	half := p.points[:0]
	for i := 0; i+1 < len(p.points); i += 2 {
		a, b := p.points[i], p.points[i+1]
		b.Seconds += a.Seconds
		b.Rows += a.Rows
		b.Bytes += a.Bytes
		b.P99 = max(a.P99, b.P99)
		half = append(half, b)
	}
	p.points, p.length, p.merges = half, 2*p.length, p.merges+1
}

// Changed returns the points that are not durable, or all if neighbours have become one.
func (p *Points) Changed() (points []Point, all bool) {
	p.taken, p.takenMerges = len(p.points), p.merges
	if p.merges != p.writtenMerges {
		return slices.Clone(p.points), true
	}
	return slices.Clone(p.points[p.written:]), false
}

// Written says that what Changed has returned last is durable.
func (p *Points) Written() {
	if p.merges == p.takenMerges {
		p.written, p.writtenMerges = p.taken, p.takenMerges
	}
}

// done is what a job has done by its stages.
func done(h History) (rows, bytes int64) {
	for _, s := range h.Stages {
		rows += s.Rows
		bytes += s.Bytes
	}
	return rows, bytes
}
