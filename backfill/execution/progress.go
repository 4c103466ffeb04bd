package execution

import (
	"fmt"
	"sync"
	"time"

	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/errs"
)

// progressInterval is how often progress is reported.
const progressInterval = 200 * time.Millisecond

// Progress counts what is done and estimates the whole. The reported
// fraction never goes back, however the estimate moves.
type Progress struct {
	job event.Job
	bus *event.Bus

	mu       sync.Mutex
	rows     int64
	imported int64   // rows whose entries are in the store
	weight   float64 // done
	total    float64 // weight of the whole table
	fraction float64 // last reported

	// before are the rows that were done before, read the weight that was read since, and sorted the bytes of
	// entries that were made since.
	before int64
	begun  float64 // weight that was done before
	read   float64
	sorted int64
	share  *ingest.Share // nil without one

	stage     string
	stageDone func() float64 // nil is as the rows

	lastRows int64
	lastTime time.Time
	rate     float64
}

func newProgress(bus *event.Bus, jobID int64) *Progress {
	return &Progress{job: event.Job{ID: jobID}, bus: bus, lastTime: time.Now()}
}

// Begin sets what was done before and the weight of all there is.
func (p *Progress) Begin(rows int64, done, total float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows, p.imported, p.weight, p.total = rows, rows, done, total
	p.before, p.begun, p.read, p.sorted = rows, done, 0, 0
	p.lastRows, p.lastTime = rows, time.Now()
	p.fraction = 0 // of a build that is begun again
}

// Extend adds weight to all there is, of which some was done before.
func (p *Progress) Extend(done, total float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weight += done
	p.total += total
	p.fraction = 0 // of less than there is now
}

// enter begins a stage.
func (p *Progress) enter(stage string, done func() float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage, p.stageDone = stage, done
}

// AllImported says that the entries of all rows so far are in the store.
func (p *Progress) AllImported() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.imported = p.rows
}

// Set says what others have done: read is how much of all rows they have read, 0 to 1.
func (p *Progress) Set(rows, imported int64, read float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows, p.imported, p.weight = max(p.rows, rows), max(p.imported, imported), max(p.weight, read*p.total)
}

// Follow says what another process has done since Begin, which began there with the same rows and weight.
func (p *Progress) Follow(e event.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows, p.imported, p.read, p.sorted = e.RowsDone, e.RowsImported, float64(e.BytesRead), e.BytesSorted
	p.weight = p.begun + p.read
}

// Add adds rows that were read, and their weight.
func (p *Progress) Add(rows int64, weight float64) { p.AddSorted(rows, weight, 0) }

// AddSorted adds rows that were read, their weight, and the bytes of their entries.
func (p *Progress) AddSorted(rows int64, weight float64, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows += rows
	p.weight += weight
	p.read += weight
	p.sorted += bytes
}

// setShare has the reports show what the execution may take of the resources; nil ends that.
func (p *Progress) setShare(s *ingest.Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share = s
}

// BytesRead returns the stored size of the rows that were read since Begin, by the store's estimate.
func (p *Progress) BytesRead() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.read)
}

// Done returns the number of rows that were read.
func (p *Progress) Done() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows
}

// start reports in the background until stop is called, which reports the last
// state. It fails if a listener has panicked.
func (p *Progress) start() (stop func() error) {
	quit, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		defer func() { ended <- err }()
		defer errs.Contain(&err)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case now := <-ticker.C:
				p.bus.Emit(p.report(now))
			}
		}
	}()
	return func() error {
		close(quit)
		if err := <-ended; err != nil {
			return fmt.Errorf("backfill: report progress: %w", err)
		}
		p.bus.Emit(p.report(time.Now()))
		return nil
	}
}

func (p *Progress) report(now time.Time) event.Progress {
	p.mu.Lock()
	stage, done, share := p.stage, p.stageDone, p.share
	p.mu.Unlock()
	stageDone := 0.0
	if done != nil {
		stageDone = done()
	}
	workers, speed, limit := 0, int64(0), ""
	if share != nil {
		workers = share.Workers()
		speed, limit = share.WriteSpeed()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if elapsed := now.Sub(p.lastTime).Seconds(); elapsed > 0 {
		current := float64(p.rows-p.lastRows) / elapsed
		if p.rate == 0 {
			p.rate = current
		}
		p.rate += (current - p.rate) * 0.4
		p.lastRows, p.lastTime = p.rows, now
	}
	e := event.Progress{
		Job: p.job, Stage: stage, RowsDone: p.rows, RowsTotal: p.estimateLocked(), RowsImported: p.imported,
		RowsPerSecond: p.rate, StageDone: stageDone,
		RowsBefore: p.before, BytesRead: int64(p.read), BytesSorted: p.sorted,
		Workers: workers, WriteSpeed: speed, WriteLimit: limit,
	}
	if done == nil && e.RowsTotal > 0 {
		e.StageDone = float64(e.RowsDone) / float64(e.RowsTotal)
	}
	return e
}

// estimateLocked estimates how many rows there are.
func (p *Progress) estimateLocked() int64 {
	if p.total > 0 {
		p.fraction = max(p.fraction, min(1, p.weight/p.total))
	}
	if p.fraction == 0 {
		return p.rows
	}
	return max(p.rows, int64(float64(p.rows)/p.fraction))
}
