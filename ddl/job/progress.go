package job

import (
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
	stage string
	total int64
	parts [partCount]part

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
	// RowsBefore, SortedBytes, Workers, WriteSpeed and WriteLimit are those of event.Progress.
	RowsBefore, SortedBytes int64
	Workers                 int
	WriteSpeed              int64
	WriteLimit              string
}

// part is a part of the work that each row takes.
type part struct {
	done int64
	// rate is the number of rows per second lately, pace that over a longer time, once
	// they are measured.
	rate, pace float64
	measured   bool
	// samples are what was done at times since began, the oldest at the end of the longer
	// window; none while the part is not worked on. It is measured for the last time when
	// its stage has ended, at until.
	samples      []sample
	began, until time.Time
}

type sample struct {
	time time.Time
	done int64
}

const (
	scanPart = iota
	importPart
	verifyPart
	partCount
)

// weights are the percentages of the time that the parts take where it is not
// known better.
var weights = [partCount]float64{45, 40, 15}

// stageParts are the parts that the stages of a backfill belong to.
var stageParts = map[string]int{StageScan: scanPart, StageMerge: importPart, StageVerify: verifyPart}

const (
	// rateWindow is the time over which a rate is averaged, leastInterval the least
	// over which it is measured.
	rateWindow    = 5 * time.Second
	leastInterval = 50 * time.Millisecond
	// longestWindow bounds the time that the remaining time is estimated by, which is half
	// of that since the stage has begun. Over a short time a build that stands still, because
	// its workers all write what they have sorted, say, seems to last for ever.
	longestWindow = time.Minute
	// farOff and farOffBy say when the remaining time was wrong by far: it is
	// farOff times what was shown, and farOffBy more.
	farOff   = 1.5
	farOffBy = time.Second
	// maxRemaining is the longest time that is worth showing.
	maxRemaining = 365 * 24 * time.Hour
)

// SetStage tells that a stage has begun, perhaps again after an interruption, and
// that the one before has ended.
func (p *Progress) SetStage(now time.Time, stage string) {
	p.parts[stageParts[p.stage]].until = now
	p.stage = stage
	part := &p.parts[stageParts[stage]]
	part.samples, part.began, part.until = []sample{{now, part.done}}, now, time.Time{}
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
	current := stageParts[p.stage]
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
	for i := range p.parts {
		if part := &p.parts[i]; !part.until.IsZero() {
			part.measure(part.until)
			part.samples, part.until = nil, time.Time{}
		}
	}
	p.parts[current].measure(now)
	p.updatePercent()
	p.updateRemaining(now)
}

func (p *part) measure(now time.Time) {
	n := len(p.samples)
	if n == 0 {
		return
	}
	if p.done < p.samples[n-1].done { // it begins again at its last checkpoint
		p.samples, p.began = []sample{{now, p.done}}, now
		return
	}
	if now.Sub(p.samples[n-1].time) < leastInterval && p.until.IsZero() {
		return
	}
	p.samples = append(p.samples, sample{now, p.done})
	window := min(max(now.Sub(p.began)/2, rateWindow), longestWindow)
	for now.Sub(p.samples[1].time) >= window {
		p.samples = p.samples[1:]
	}
	lately := 0
	for now.Sub(p.samples[lately+1].time) >= rateWindow {
		lately++
	}
	if rows := p.done - p.samples[0].done; rows > 0 || p.measured {
		p.rate, p.pace, p.measured = p.perSecond(lately, now), p.perSecond(0, now), true
	}
}

// perSecond is the number of rows per second since a sample.
func (p *part) perSecond(i int, now time.Time) float64 {
	since := p.samples[i]
	return float64(p.done-since.done) / max(now.Sub(since.time), time.Millisecond).Seconds()
}

func (p *Progress) updatePercent() {
	sum := 0.0
	for i, part := range p.parts {
		sum += weights[i] * float64(part.done) / float64(p.total)
	}
	p.percent = max(p.percent, sum)
}

// updateRemaining estimates the remaining time: each part at its own pace, or, if
// that is not known yet, at the one that the first which is known suggests.
// There is no estimate while nothing gets on.
func (p *Progress) updateRemaining(now time.Time) {
	var perWeight float64 // seconds for each row and unit of weight
	for i, part := range p.parts {
		if part.pace > 0 && weights[i] > 0 {
			perWeight = 1 / part.pace / weights[i]
			break
		}
	}
	seconds := 0.0
	for i, part := range p.parts {
		rows := float64(p.total - part.done)
		switch {
		case weights[i] == 0 || rows <= 0:
		case !part.measured && perWeight > 0:
			seconds += rows * perWeight * weights[i]
		default:
			seconds += rows / part.pace // perhaps endless
		}
	}
	if p.known = seconds < maxRemaining.Seconds(); !p.known {
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

// HasStage says that progress is made in a stage.
func HasStage(stage string) bool {
	_, known := stageParts[stage]
	return known
}
