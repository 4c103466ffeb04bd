package job

import (
	"slices"
	"time"
)

// The stages of a job, as users see them.
const (
	// StageWait is all time outside the other stages: of waiting, changing the schema, and pauses.
	StageWait = "wait"
	// StageScan, StageMerge and StageVerify are those of a backfill: rows are read and their entries sorted, sorted
	// entries are merged and imported, and imported entries are read back.
	StageScan, StageMerge, StageVerify = "scan", "merge", "verify"
	// StageCompare compares rows and indexes before the publication.
	StageCompare = "compare"
)

// StageTime is what a job has done in a stage, over all its attempts and owners, as far as those could keep it.
type StageTime struct {
	Stage string `json:"stage"`
	// Seconds is how long the job was in the stage.
	Seconds float64 `json:"seconds"`
	// WorkSeconds are the seconds of its workers in the stage without those in which they have waited for a write limit or
	// yielded to the foreground: what the work itself costs; 0 where that is not known.
	WorkSeconds float64 `json:"work_seconds,omitempty"`
	// Rows were read (scan, compare), imported (merge) or read back (verify); a resumed build repeats some of them.
	Rows int64 `json:"rows"`
	// Bytes are the keys and values that the entries have (scan), or of the files that were imported (merge).
	Bytes int64 `json:"bytes"`
}

// StageClock adds up what a job does in its stages. Times are given to it. The zero value is ready to use.
type StageClock struct {
	stages  []StageTime
	current string
	since   time.Time
	// last is the last report of the execution that is under way, and merged the rows of that whose entries were imported.
	last   Report
	merged int64
	seen   time.Time // of last; zero if there is none
}

// Resume begins with what earlier attempts have done.
func (c *StageClock) Resume(stages []StageTime) { c.stages = slices.Clone(stages) }

// Enter begins a stage, and ends the one before.
func (c *StageClock) Enter(now time.Time, stage string) {
	if stage == c.current {
		return
	}
	c.advance(now)
	c.current, c.seen = stage, time.Time{}
}

// Stage is the stage that the job is in; empty before the first.
func (c *StageClock) Stage() string { return c.current }

// Stages returns the stages up to now, in the order in which the job has entered them first.
func (c *StageClock) Stages(now time.Time) []StageTime {
	c.advance(now)
	return slices.Clone(c.stages)
}

// Report adds what an execution has done since its last report.
func (c *StageClock) Report(now time.Time, r Report) {
	if c.current == "" || r.Stage != c.current {
		return
	}
	work := c.at(c.current)
	if !c.seen.IsZero() {
		work.WorkSeconds += float64(r.Workers) * max(0, now.Sub(c.seen).Seconds())
	}
	begun := r.RowsBefore != c.last.RowsBefore || r.Rows < c.last.Rows || r.SortedBytes < c.last.SortedBytes
	if begun { // another execution, of which last says nothing
		c.last, c.merged = Report{Rows: r.RowsBefore, RowsBefore: r.RowsBefore}, r.RowsBefore
	}
	if c.current == StageCompare {
		work.Rows += r.Rows - c.last.Rows
	} else {
		c.built(r)
	}
	c.last, c.seen = r, now
}

// built adds what a build has done. A short stage may end before its first report: what was done in it is seen in the next.
func (c *StageClock) built(r Report) {
	if scanned, sorted := r.Rows-c.last.Rows, r.SortedBytes-c.last.SortedBytes; scanned > 0 || sorted > 0 {
		work := c.at(StageScan)
		work.Rows += scanned
		work.Bytes += sorted
	}
	merged := r.Imported
	if c.current == StageMerge {
		merged += int64(r.StageDone * float64(r.Rows-r.Imported))
	}
	if merged > c.merged {
		c.at(StageMerge).Rows += merged - c.merged
		c.merged = merged
	}
	if c.current == StageVerify {
		work := c.at(StageVerify)
		if read := int64(r.StageDone * float64(r.Rows)); c.last.Stage == StageVerify {
			work.Rows += max(0, read-int64(c.last.StageDone*float64(r.Rows)))
		} else {
			work.Rows += read
		}
	}
}

// Imported adds bytes that were imported.
func (c *StageClock) Imported(bytes int64) {
	if c.current != "" {
		c.at(c.current).Bytes += bytes
	}
}

// Spent adds what other nodes have sorted and imported.
func (c *StageClock) Spent(costs Costs) {
	if costs.SortedBytes > 0 {
		c.at(StageScan).Bytes += costs.SortedBytes
	}
	if costs.WrittenBytes > 0 {
		c.at(StageMerge).Bytes += costs.WrittenBytes
	}
}

// Held takes time from the work of the current stage: its workers have waited for so long, summed.
func (c *StageClock) Held(waited time.Duration) {
	if c.current != "" {
		work := c.at(c.current)
		work.WorkSeconds = max(0, work.WorkSeconds-waited.Seconds())
	}
}

func (c *StageClock) advance(now time.Time) {
	if c.current != "" {
		c.at(c.current).Seconds += max(0, now.Sub(c.since).Seconds())
	}
	c.since = now
}

// at returns a stage, which it adds.
func (c *StageClock) at(stage string) *StageTime {
	i := slices.IndexFunc(c.stages, func(s StageTime) bool { return s.Stage == stage })
	if i < 0 {
		i = len(c.stages)
		c.stages = append(c.stages, StageTime{Stage: stage})
	}
	return &c.stages[i]
}
