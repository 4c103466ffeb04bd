package job

import (
	"math"
	"time"
)

// Progress turns what a backfill reports into what a client is shown: rows,
// percent and remaining time that never go backwards. Times are given to it.
//
// The scan of the table counts for most of a backfill; the stages after it have
// fixed shares, because they report nothing in between.
type Progress struct {
	stage string
	rows  int64
	total int64
	// rate is the smoothed number of rows per second.
	rate    float64
	percent float64
	// remaining is the last shown remaining time, and at when it was; it runs
	// down by itself.
	remaining time.Duration
	at        time.Time
	known     bool

	lastRows int64
	lastTime time.Time
}

// Stages of a backfill, with the percentage that is done when they begin.
var stageStart = map[string]float64{"scan": 0, "sort": 80, "merge": 80, "write": 80, "import": 88, "ingest": 88, "verify": 92}

// scanShare is the percentage that the scan counts for.
const scanShare = 80

// smoothing is the time over which the rate is averaged.
const smoothing = 5 * time.Second

// SetStage tells that a stage has begun.
func (p *Progress) SetStage(stage string) {
	p.stage = stage
	p.raise(stageStart[stage])
}

// SetRows tells that so many rows of an estimated total have been read at a time.
func (p *Progress) SetRows(now time.Time, done, total int64) {
	if done < p.rows {
		// A restarted backfill begins at its last checkpoint.
		p.lastRows, p.lastTime = done, now
		return
	}
	p.updateRate(now, done)
	p.rows = done
	p.total = max(p.total, total, done)
	if p.total == 0 {
		return
	}
	fraction := float64(p.rows) / float64(p.total)
	p.raise(scanShare * fraction)
	p.updateRemaining(now)
}

func (p *Progress) raise(percent float64) { p.percent = math.Max(p.percent, percent) }

func (p *Progress) updateRate(now time.Time, done int64) {
	if p.lastTime.IsZero() {
		p.lastRows, p.lastTime = done, now
		return
	}
	dt := now.Sub(p.lastTime)
	if dt < 50*time.Millisecond {
		return
	}
	current := float64(done-p.lastRows) / dt.Seconds()
	if p.rate == 0 {
		p.rate = current
	} else {
		weight := 1 - math.Exp(-dt.Seconds()/smoothing.Seconds())
		p.rate += weight * (current - p.rate)
	}
	p.lastRows, p.lastTime = done, now
}

// updateRemaining estimates the remaining time, and keeps it from growing.
func (p *Progress) updateRemaining(now time.Time) {
	if p.rate <= 0 {
		return
	}
	scan := float64(p.total-p.rows) / p.rate
	// The rest takes its share of the whole.
	rest := float64(p.total) / p.rate * (100 - scanShare) / scanShare
	estimate := time.Duration((scan + rest) * float64(time.Second))
	if shown, ok := p.Remaining(now); ok {
		estimate = min(estimate, shown)
	}
	p.remaining, p.at, p.known = estimate, now, true
}

// Rows is the number of rows done.
func (p *Progress) Rows() int64 { return p.rows }

// RowsPerSecond is the smoothed rate.
func (p *Progress) RowsPerSecond() float64 { return p.rate }

// Stage is the backfill's stage.
func (p *Progress) Stage() string { return p.stage }

// Percent is how much of the job is done, below 100 until it has ended.
func (p *Progress) Percent() float64 { return math.Min(p.percent, 99) }

// Remaining is the estimated time to go; ok is false if there is no estimate
// yet.
func (p *Progress) Remaining(now time.Time) (remaining time.Duration, ok bool) {
	if !p.known {
		return 0, false
	}
	return max(p.remaining-now.Sub(p.at), 0), true
}
