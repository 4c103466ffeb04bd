package job

import (
	"math"
	"time"
)

// Progress turns what a backfill reports into what a client is shown. Rows and
// percent never go backwards. The remaining time runs down, and grows only when
// it was wrong by far: the job was throttled, or has to share with others. Times
// are given to it.
//
// All work is counted in rows: each has to be scanned, its entries imported, and
// those read back, one after the other or in several rounds.
type Progress struct {
	stage   string
	total   int64
	parts   [partCount]part
	weights [partCount]float64

	// rows and percent are the greatest that were shown.
	rows    int64
	percent float64
	// remaining is the remaining time as of at; it runs down by itself.
	remaining time.Duration
	at        time.Time
	known     bool
}

// Report is what a backfill says of itself from time to time.
type Report struct {
	// Stage is the stage that the rest is about.
	Stage string
	// Rows were read, of Total by estimate; the entries of Imported are in the
	// store.
	Rows, Total, Imported int64
	// StageDone is how much of the stage is done, 0 to 1.
	StageDone float64
}

// part is a part of the work that each row takes.
type part struct {
	done int64
	// rate is the smoothed number of rows per second, 0 before it was measured;
	// last is done at a time.
	rate float64
	last int64
	time time.Time
}

const (
	scanPart = iota
	importPart
	verifyPart
	partCount
)

// The percentages of the time that the parts take where it is not known better:
// of a build by ingest, and of one by transactions, which write as they read.
var (
	ingestWeights        = [partCount]float64{45, 40, 15}
	transactionalWeights = [partCount]float64{100, 0, 0}
)

// stageParts are the parts that the stages of a backfill by ingest belong to.
var stageParts = map[string]int{"scan": scanPart, "merge": importPart, "verify": verifyPart}

const (
	// smoothing is the time over which a rate is averaged, leastInterval the least
	// over which it is measured.
	smoothing     = 5 * time.Second
	leastInterval = 50 * time.Millisecond
	// farOff and farOffBy say when the remaining time was wrong by far: it is
	// farOff times what was shown, and farOffBy more.
	farOff   = 1.5
	farOffBy = time.Second
	// maxRemaining is the longest time that is worth showing.
	maxRemaining = 365 * 24 * time.Hour
)

// SetStage tells that a stage has begun, perhaps again after an interruption:
// what passed since the last report says nothing about rates.
func (p *Progress) SetStage(stage string) {
	p.stage = stage
	for i := range p.parts {
		p.parts[i].time = time.Time{}
	}
}

// Set takes a report. One that is late, of another stage, is not looked at.
func (p *Progress) Set(now time.Time, r Report) {
	if r.Stage != p.stage {
		return
	}
	p.rows = max(p.rows, r.Rows)
	p.total = max(r.Total, r.Rows)
	if p.total == 0 {
		return
	}
	current, byIngest := stageParts[p.stage]
	p.weights = ingestWeights
	if !byIngest {
		p.weights = transactionalWeights
	}
	p.parts[scanPart].done = r.Rows
	p.parts[importPart].done = r.Imported
	p.parts[verifyPart].done = 0
	switch current {
	case importPart:
		p.parts[importPart].done += int64(r.StageDone * float64(r.Rows-r.Imported))
	case verifyPart:
		p.parts[importPart].done = r.Rows
		p.parts[verifyPart].done = int64(r.StageDone * float64(p.total))
	}
	p.parts[current].measure(now)
	p.updatePercent()
	p.updateRemaining(now)
}

func (p *part) measure(now time.Time) {
	dt := now.Sub(p.time)
	switch {
	case p.time.IsZero():
		p.last, p.time = p.done, now
	case dt >= leastInterval:
		rate := max(0, float64(p.done-p.last)/dt.Seconds())
		if p.rate > 0 {
			weight := 1 - math.Exp(-dt.Seconds()/smoothing.Seconds())
			rate = p.rate + weight*(rate-p.rate)
		}
		p.rate, p.last, p.time = rate, p.done, now
	}
}

func (p *Progress) updatePercent() {
	sum := 0.0
	for i, part := range p.parts {
		sum += p.weights[i] * float64(part.done) / float64(p.total)
	}
	p.percent = max(p.percent, sum)
}

// updateRemaining estimates the remaining time: each part at its own rate, or, if
// that is not known yet, at the one that the first which is known suggests.
func (p *Progress) updateRemaining(now time.Time) {
	var perWeight float64 // seconds for each row and unit of weight
	for i := len(p.parts) - 1; i >= 0; i-- {
		if rate := p.parts[i].rate; rate > 0 && p.weights[i] > 0 {
			perWeight = 1 / rate / p.weights[i]
		}
	}
	seconds := 0.0
	for i, part := range p.parts {
		perRow := perWeight * p.weights[i]
		if part.rate > 0 {
			perRow = 1 / part.rate
		}
		seconds += perRow * float64(max(0, p.total-part.done))
	}
	if p.known = perWeight > 0 && seconds < maxRemaining.Seconds(); !p.known {
		return
	}
	estimate := time.Duration(seconds * float64(time.Second))
	shown := max(0, p.remaining-now.Sub(p.at))
	if p.at.IsZero() || estimate < shown || estimate > time.Duration(farOff*float64(shown))+farOffBy {
		p.remaining, p.at = estimate, now
	}
}

// Rows is the number of rows done.
func (p *Progress) Rows() int64 { return p.rows }

// RowsPerSecond is the smoothed rate of the current stage.
func (p *Progress) RowsPerSecond() float64 { return p.parts[stageParts[p.stage]].rate }

// Stage is the backfill's stage.
func (p *Progress) Stage() string { return p.stage }

// Percent is how much of the job is done, below 100 until it has ended.
func (p *Progress) Percent() float64 { return min(p.percent, 99) }

// Remaining is the estimated time to go; ok is false if there is no estimate
// yet.
func (p *Progress) Remaining(now time.Time) (remaining time.Duration, ok bool) {
	if !p.known {
		return 0, false
	}
	return max(p.remaining-now.Sub(p.at), 0), true
}
