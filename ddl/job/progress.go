package job

import "time"

// Progress turns what a build reports into what a client is shown. Rows and percent never go backwards. The remaining time
// grows only with a reason, which is shown. Times are given to it.
//
// All work is counted in rows: each has to be scanned, its entries imported, and those read back, one after the other or in
// several rounds; some builds compare rows and indexes at last. What is left of each takes the time that it has taken of
// workers so far, by as many workers as there are, less what they yield; imports take no less than the write limit allows.
type Progress struct {
	plan  Plan
	stage string
	total int64
	parts [partCount]part
	load  load
	// report is the last one. sorted and sortedRows are bytes of entries and the rows that have them.
	report             Report
	sorted, sortedRows float64

	// fresh says that there is no report of the stage yet.
	fresh bool
	// rows is the greatest number that was shown.
	rows int64
	forecast
}

// Plan is what a build will do, as far as it is known before.
type Plan struct {
	// Verify is the part of the entries that is read back, Compare that of the rows and entries that are compared before
	// the publication, 0 to 1.
	Verify, Compare float64
	// Prior is what builds have cost before.
	Prior Prior
	// End returns when work of some length ends that begins or goes on now: builds may have a window. Nil is without a break.
	End func(now time.Time, work time.Duration) time.Time
}

// Prior is what builds cost before this one has shown it, in seconds of one worker; what is zero is not known.
type Prior struct {
	// MergeByte is for a byte of the entries to be merged and imported. VerifyRow and CompareRow are for a row.
	MergeByte, VerifyRow, CompareRow float64
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

const (
	scanPart = iota
	importPart
	verifyPart
	comparePart
	partCount
)

// weights are what a row takes in the parts, where it is not known better.
var weights = [partCount]float64{45, 25, 15, 45}

// stageParts are the parts that the stages belong to.
var stageParts = map[string]int{StageScan: scanPart, StageMerge: importPart, StageVerify: verifyPart, StageCompare: comparePart}

// HasStage says that progress is made in a stage.
func HasStage(stage string) bool {
	_, known := stageParts[stage]
	return known
}

// SetPlan says what the build will do.
func (p *Progress) SetPlan(plan Plan) { p.plan = plan }

// Resume says that the job has been at a percentage before, in an earlier process.
func (p *Progress) Resume(percent float64) {
	p.percent, p.resumed = percent, true
}

// SetStage tells that a stage has begun, perhaps again after an interruption, and
// that the one before has ended.
func (p *Progress) SetStage(now time.Time, stage string) {
	if p.stage != "" {
		ended := &p.parts[stageParts[p.stage]]
		ended.until = p.load.pass(now, p.report.Workers)
		ended.untilWork = p.load.work()
	}
	p.stage = stage
	p.load.seen = now
	part := &p.parts[stageParts[stage]]
	part.until = time.Time{}
	part.begin(now, p.load.work())
	p.fresh = true
}

// Held tells that workers have waited for so long, summed: for a write limit, or because they yield.
func (p *Progress) Held(waited time.Duration, yields bool) {
	if yields {
		p.load.yielded += waited.Seconds()
	} else {
		p.load.limited += waited.Seconds()
	}
}

// Set takes a report. One that is late, of another stage, is not looked at.
func (p *Progress) Set(now time.Time, r Report) {
	if r.Stage != p.stage {
		return
	}
	if r.Stage == StageCompare { // of another execution, which reads the rows again
		p.compared(now, r)
		return
	}
	last := p.report
	p.report = r
	p.load.pass(now, last.Workers)
	p.rows = max(p.rows, r.Rows)
	p.total = max(r.Total, r.Rows)
	if p.total == 0 {
		return
	}
	another := r.RowsBefore != last.RowsBefore || r.Rows < last.Rows || r.SortedBytes < last.SortedBytes
	if another {
		last = Report{Rows: r.RowsBefore, WriteSpeed: last.WriteSpeed}
	}
	p.countSorted(last, r)
	if another && r.Rows < p.rows {
		p.resumed = true
	}
	current := stageParts[p.stage]
	p.parts[scanPart].done = r.Rows
	p.parts[importPart].done = r.Imported
	p.parts[verifyPart].done = 0
	p.parts[comparePart].done = 0
	switch current {
	case importPart:
		p.parts[importPart].done += int64(r.StageDone * float64(r.Rows-r.Imported))
	case verifyPart:
		p.parts[importPart].done = r.Rows
		p.parts[verifyPart].done = int64(r.StageDone * float64(p.total))
	}
	p.begins(now, current, another)
	if r.WriteSpeed != last.WriteSpeed && current == importPart { // what was measured was at the limit before
		p.parts[importPart].begin(now, p.load.work())
		p.parts[importPart].of = 0
	}
	p.measure(now, current)
}

// begins takes what was done before the first report of a stage for what an earlier execution has done, where it is.
func (p *Progress) begins(now time.Time, current int, another bool) {
	part := &p.parts[current]
	switch {
	case !p.fresh:
	case current == verifyPart || current == comparePart:
		part.begin(now, p.load.work())
	case another:
		part.samples[0].done = p.report.RowsBefore
	}
	p.fresh = false
}

// compared takes a report of a comparison.
func (p *Progress) compared(now time.Time, r Report) {
	p.load.pass(now, p.report.Workers)
	p.report.Workers = r.Workers
	if r.Total > 0 {
		p.plan.Compare = 1 // all rows are read, not only what has changed
	}
	if p.total == 0 { // the build was in an earlier process
		p.total = max(r.Total, r.Rows)
	}
	for i := range comparePart {
		p.parts[i].done = p.total
	}
	done := r.StageDone
	if r.Total > 0 {
		done = max(done, float64(r.Rows)/float64(r.Total))
	}
	p.parts[comparePart].done = int64(min(1, done) * float64(p.total))
	p.begins(now, comparePart, false)
	p.measure(now, comparePart)
}

// measure measures the current part, and those whose stages have ended, and estimates anew.
func (p *Progress) measure(now time.Time, current int) {
	for i := range p.parts {
		if part := &p.parts[i]; !part.until.IsZero() {
			part.measure(part.until, part.untilWork)
			part.samples, part.until = nil, time.Time{}
		}
	}
	p.parts[current].measure(now, p.load.work())
	p.update(now, p.left(), p.plan.End)
}

// countSorted counts the bytes of the entries, by row, of what an execution has done since a report of it.
func (p *Progress) countSorted(last, r Report) {
	if bytes, rows := r.SortedBytes-last.SortedBytes, r.Rows-last.Rows; rows > 0 {
		p.sorted += float64(bytes)
		p.sortedRows += float64(rows)
	}
}

// bytesPerRow is the size of the entries of a row; 0 if it is not known.
func (p *Progress) bytesPerRow() float64 {
	if p.sortedRows == 0 {
		return 0
	}
	return p.sorted / p.sortedRows
}

// left is what is left to do.
func (p *Progress) left() (l work) {
	l.known = true
	seconds := max(1, float64(p.report.Workers)) * p.load.share() // of workers, in each second
	l.now = facts{
		limit: p.report.WriteLimit, speed: p.report.WriteSpeed, workers: p.report.Workers, share: p.load.share(), total: p.total,
		stage: p.stage, resumed: p.resumed,
	}
	var perWeight float64 // the cost of each row and unit of weight, as the first part shows that is measured
	for i := range p.parts {
		if part := &p.parts[i]; part.measured && part.cost > 0 {
			perWeight = part.cost / weights[i]
			break
		}
	}
	for i := range p.parts {
		part, amount := &p.parts[i], p.amount(i)
		l.rows[i] = float64(p.total-part.done) * amount
		l.done[i] = float64(part.done) * amount
		cost, known := p.cost(i, perWeight)
		l.each[i] = cost / seconds
		if i == importPart {
			l.each[i] = max(l.each[i], p.limited())
		}
		l.known = l.known && (known || l.rows[i] <= 0)
	}
	return l
}

// amount is how much of the rows a part is about.
func (p *Progress) amount(i int) float64 {
	switch i {
	case verifyPart:
		return p.plan.Verify
	case comparePart:
		return p.plan.Compare
	}
	return 1
}

// cost is what a row takes of the time of workers.
func (p *Progress) cost(i int, perWeight float64) (cost float64, known bool) {
	part, prior := &p.parts[i], 0.0
	switch i {
	case importPart:
		prior = p.plan.Prior.MergeByte * p.bytesPerRow()
	case verifyPart:
		prior = p.plan.Prior.VerifyRow
	case comparePart:
		prior = p.plan.Prior.CompareRow
	}
	switch {
	case part.measured && p.amount(i) > 0:
		return part.cost / p.amount(i), true
	case prior > 0:
		return prior, true
	}
	return perWeight * weights[i], perWeight > 0
}

// limited is the least that the import of a row's entries takes by the write limit: as it was since that limit is in force, if
// it was for long enough.
func (p *Progress) limited() float64 {
	if p.report.WriteSpeed <= 0 {
		return 0
	}
	part := &p.parts[importPart]
	if part.of >= leastYields && part.pace > 0 && p.stage == StageMerge {
		return 1 / part.pace
	}
	return p.bytesPerRow() / float64(p.report.WriteSpeed)
}

// Rows is the number of rows done.
func (p *Progress) Rows() int64 { return p.rows }

// RowsPerSecond is the smoothed rate of the current stage.
func (p *Progress) RowsPerSecond() float64 { return p.parts[stageParts[p.stage]].rate }

// Stage is the stage of the build.
func (p *Progress) Stage() string { return p.stage }
