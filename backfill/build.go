package backfill

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/backfill/keyrange"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
)

// build is one run of a backfill.
type build struct {
	*execution.Execution
	opts         Options
	meter        *meter
	checkpointed []byte // what it starts from
	saved        time.Time
	result       Result
	subtasks     *subtasks // that it builds; nil if it builds the whole table
	counts       bool      // the rows are counted by their keys
	defers       bool      // the entries need not be summed up
	leftovers    bool      // unique indexes may have entries of an older snapshot
	count        *rowCount // nil before that is planned
	cuts         [][]byte  // in the indexes, see keepCuts
	auto         bool      // what the chain of proof shows is not read a second time
	countsScans  bool      // the store is a kv.ScanCounter
	since        uint64    // the indexes had no entries then; 0 if it is not known
	older        older
	visited      atomic.Int64
	statistics   indexstats.Settings
	tiling       *tiling
}

func newBuild(opts Options, spec Spec) (*build, error) {
	opts.EnsureDefaults()
	x, err := execution.New(opts.Common(), spec.Task)
	if err := errors.Join(opts.Validate(), err); err != nil {
		return nil, err
	}
	_, countsScans := opts.Store.(kv.ScanCounter)
	return &build{Execution: x, opts: opts, meter: newMeter(), checkpointed: spec.Checkpoint, countsScans: countsScans, statistics: spec.Statistics.WithDefaults()}, nil
}

// shareOptions describe the share of the resources that building needs.
func (b *build) shareOptions() ingest.ShareOptions {
	return ingest.ShareOptions{Indexes: len(groupFrom(b.Task.Table, b.Task.Indexes, b.Physicals, 0).targets)}
}

// newCheckpoint is the checkpoint of a build of which nothing is done.
func (b *build) newCheckpoint(tasks []keyrange.Weighted) *checkpoint {
	cp := &checkpoint{Format: checkpointFormat, TS: b.Task.TS, Weight: keyrange.TotalWeight(tasks)}
	for _, idx := range b.Task.Indexes {
		cp.Indexes = append(cp.Indexes, checkpointIndex{ID: idx.ID, Intervals: execution.Intervals{}.Fit(ingest.Totals{})})
	}
	cp.setTasks(tasks)
	return cp
}

// resume returns the checkpoint in data, or nil if there is none or it belongs to another build. One that cannot be
// read is dropped, which costs work and nothing else: what has been imported is imported again at the same version.
func (b *build) resume(data []byte) *checkpoint {
	c, err := decodeCheckpoint(data, &b.Task)
	if err != nil {
		b.opts.Bus.Emit(event.CheckpointDropped{Job: b.Job(), Err: err})
	}
	return c
}

// addSubtask makes a subtask one of those that are built, and returns its checkpoint.
func (b *build) addSubtask(p HeldSubtask) (*checkpoint, error) {
	tasks := keyrange.Load(p.Subtask.Ranges)
	if len(tasks) == 0 || !execution.InTable(b.Task.Table, tasks) {
		return nil, fmt.Errorf("backfill: a part of job %d is not of table %s", b.Task.JobID, b.Task.Table.Name.O)
	}
	cp := b.resume(p.Checkpoint)
	if cp == nil {
		cp = b.newCheckpoint(tasks)
	}
	b.subtasks.wrong = b.subtasks.wrong || p.Wrong
	b.subtasks.all = append(b.subtasks.all, subtaskBuild{kv.KeyRange{Start: tasks[0].Start, End: tasks[len(tasks)-1].End}, cp})
	return cp, nil
}
