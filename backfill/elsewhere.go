package backfill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/stage"
	"fastddl/lightning"
)

// Ingester does a part of builds in another process: it reads rows, sorts their entries and imports them. A build plans before it, and
// verifies after it, in this process.
type Ingester interface {
	// Takes says whether the work is done there now; if not, the build does it itself.
	Takes(w IngestWork) bool
	// Ingest does what the checkpoint of the work says is left, and returns the last checkpoint. When it returns, nothing of the work
	// is under way any more. It fails as Run does, and if the other process ends: what was saved last is where another attempt begins.
	// If it fails with ErrNotStarted, nothing was done, and the build does the work itself.
	Ingest(ctx context.Context, w IngestWork) (checkpoint []byte, done IngestCosts, err error)
}

// ErrNotStarted says that there is no other process that does the work.
var ErrNotStarted = errors.New("backfill: no process could be started for a build")

// IngestWork is what an Ingester does for one build.
type IngestWork struct {
	// Task names the entries.
	encode.Task
	// Checkpoint is where the work begins, and Bytes about the size of the rows that are left.
	Checkpoint []byte
	Bytes      float64
	// Ranges are those of the entries of all indexes.
	Ranges     []keyrange.Indexed
	Statistics indexstats.Settings
	Options    Options
	// Share is the job's part of the resources.
	Share *ingest.Share
	// Progress takes what the other process has done.
	Progress *execution.Progress
	// Enter begins a stage, as Execution.Enter.
	Enter func(name string, done func() float64)
}

// IngestCosts is what reading, sorting and importing has cost.
type IngestCosts struct {
	Costs stage.Costs
	// Scanning and Merging are the time that passed in these phases, CPU the processor time of the process.
	Scanning, Merging, CPU time.Duration
	Files, Flushes         int
	Bytes                  uint64
	PeakMemory, PeakTemp   int64
}

// ingestAnywhere does what cp says is left, here or by the Ingester.
func (b *build) ingestAnywhere(ctx context.Context, cp *checkpoint) error {
	if b.opts.Ingester == nil || len(cp.Remaining) == 0 {
		return b.ingest(ctx, cp)
	}
	tasks := cp.tasks()
	work := IngestWork{
		Task: b.Task, Bytes: keyrange.TotalWeight(tasks), Statistics: b.statistics, Options: b.opts,
		Share: b.Share, Progress: b.Progress, Enter: b.Enter,
	}
	if !b.opts.Ingester.Takes(work) {
		return b.ingest(ctx, cp)
	}
	var err error
	work.Ranges = b.IndexRanges()
	if work.Checkpoint, err = cp.encodeWithin(math.MaxInt); err != nil {
		return err
	}
	b.cuts, b.result.Workers = nil, b.Share.Workers()
	b.Progress.Begin(cp.Rows, cp.Weight-keyrange.TotalWeight(tasks), cp.Weight)
	last, done, err := b.opts.Ingester.Ingest(ctx, work)
	b.addIngested(done)
	if errors.Is(err, ErrNotStarted) {
		return b.ingest(ctx, cp)
	}
	if err != nil {
		return err
	}
	after, err := decodeCheckpoint(last, &b.Task)
	if err == nil && (after == nil || len(after.Remaining) > 0) {
		err = errors.New("backfill: another process has not done all work of a build")
	}
	if err != nil {
		return err
	}
	*cp = *after
	return nil
}

// addIngested adds what another process has done.
func (b *build) addIngested(done IngestCosts) {
	b.AddCosts(&done.Costs)
	b.meter.scanning += done.Scanning
	b.meter.merging += done.Merging
	b.meter.elsewhere += done.CPU
	b.result.Flushes += done.Flushes
	b.result.addJob(&ingest.Stats{
		Stats: lightning.Stats{Files: done.Files, Bytes: done.Bytes}, PeakMemoryBytes: done.PeakMemory, PeakTempBytes: done.PeakTemp,
	})
}

// Ingest does what the checkpoint of spec says is left of a build: it reads rows, sorts their entries, imports them into opts.Store, and
// returns the last checkpoint. It is the part of Run that an Ingester's process does; it fails and obeys ctx as Run does.
func Ingest(ctx context.Context, opts Options, spec Spec) (checkpoint []byte, done IngestCosts, err error) {
	b, err := newBuild(opts, spec)
	if err != nil {
		return nil, IngestCosts{}, err
	}
	cp := b.resume(spec.Checkpoint)
	if cp == nil {
		return nil, IngestCosts{}, fmt.Errorf("backfill: the checkpoint of job %d cannot be used", b.Task.JobID)
	}
	err = b.Execute(ctx, b.shareOptions(), func(ctx context.Context) error { return b.ingest(ctx, cp) })
	done = IngestCosts{
		Costs: b.StageCosts(), Scanning: b.meter.scanning, Merging: b.meter.merging, CPU: stage.ProcessCPU(),
		Files: b.result.Files, Flushes: b.result.Flushes, Bytes: b.result.IngestedBytes,
		PeakMemory: b.result.PeakMemoryBytes, PeakTemp: b.result.PeakTempBytes,
	}
	if err != nil {
		return nil, done, err
	}
	checkpoint, err = cp.encodeWithin(math.MaxInt)
	return checkpoint, done, err
}
