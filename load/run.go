package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fastddl/backfill/execution"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/stage"
	"fastddl/kv"
	"fastddl/load/rows"
)

// Run loads the rows of spec's source with the entries of all indexes, starting from the checkpoint if there is one. On
// success they are durable under the IDs of spec.Table at one version, and verified. On error, or when ctx ends, which it obeys
// within a second, what was imported stays: either Run is called again with the last checkpoint, or the caller deletes the
// ranges of the IDs. It fails with a *RowsError of bad rows, a *DuplicateError, a *MismatchError, an error of reading the source,
// *lightning.PairCountError, *kv.DamagedUnitError, *kv.ImportAccountError, or an error of the store.
func Run(ctx context.Context, opts Options, spec Spec) (Result, error) {
	return run(ctx, opts, spec, files{spec.Source})
}

func run(ctx context.Context, opts Options, spec Spec, source source) (Result, error) {
	opts.EnsureDefaults()
	if err := validate(&opts, &spec); err != nil {
		return Result{}, err
	}
	l := &loader{opts: opts, spec: spec, source: source, layout: newLayout(spec.Table)}
	begun, cpu := time.Now(), stage.ProcessCPU()
	err := execution.Ended(ctx, l.run(ctx))
	l.result.WallSeconds = time.Since(begun).Seconds()
	l.result.CPUSeconds = (stage.ProcessCPU() - cpu).Seconds()
	l.result.Stages = stageSeconds(&l.costs)
	l.opts.Bus.Emit(Finished{Job: l.job(), Result: l.result, Err: err})
	return l.result, err
}

// loader is one run of a load.
type loader struct {
	opts   Options
	spec   Spec
	source source
	layout *layout
	share  *ingest.Share
	bad    badRows
	result Result
	// importing says that the round has begun to import, and that this was recorded.
	importing bool

	mu    sync.Mutex
	costs stage.Costs
}

// job names the load in events.
func (l *loader) job() event.Job { return event.Job{ID: l.spec.JobID} }

func (l *loader) addCosts(c *stage.Costs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.costs.Add(c)
}

// enter reports a new stage. done says how much of it is done, 0 to 1; nil if that is to be seen from what was read of the source.
func (l *loader) enter(name string, done func() float64) {
	l.opts.Progress.enter(name, done)
	l.opts.Bus.Emit(event.StageChanged{Job: l.job(), Stage: name})
}

func (l *loader) run(ctx context.Context) (err error) {
	defer errs.Contain(&err)
	l.bad.most = l.maxErrors()
	l.enter(Waiting, func() float64 { return 0 })
	l.share, err = l.opts.Resources.Join(ctx, ingest.ShareOptions{
		JobID: l.spec.JobID, Indexes: len(l.layout.spaces), MaxWorkers: l.opts.MaxWorkers, Settings: l.opts.Settings, Bus: l.opts.Bus,
	})
	if err != nil {
		return err
	}
	defer l.share.Leave()
	cp, hold, err := l.resume(ctx)
	if err != nil {
		return err
	}
	return l.whileHeld(ctx, hold, func(ctx context.Context) error { return l.goOn(ctx, cp) })
}

// goOn loads what a checkpoint has not, and verifies all.
func (l *loader) goOn(ctx context.Context, cp *checkpoint) error {
	l.opts.Progress.begin(cp.Rows, cp.Read, l.source.Bytes())
	if len(cp.Chunks) > 0 {
		if err := l.load(ctx, cp); err != nil {
			return err
		}
	}
	if err := l.checkEntries(cp); err != nil {
		return err
	}
	if err := l.verify(ctx, cp); err != nil {
		return err
	}
	l.fillResult(cp)
	return nil
}

// resume returns the checkpoint that the load starts from, and holds garbage collection at its version. If it is not known which rows
// the store has, or if garbage collection has passed the version, they are deleted, and the load begins anew: rows that were read before
// may get other generated keys now.
func (l *loader) resume(ctx context.Context) (*checkpoint, kv.GCHold, error) {
	if len(l.spec.Checkpoint) == 0 { // a store that was restored from a backup may have rows that no checkpoint knows
		if err := l.wipe(ctx); err != nil {
			return nil, nil, err
		}
		return l.begin(ctx)
	}
	cp, err := l.decodeCheckpoint(l.spec.Checkpoint)
	switch {
	case err != nil:
	case cp.Importing:
		err = errors.New("load: the process ended during an import")
	case slices.ContainsFunc(cp.Chunks, func(c rows.Chunk) bool { return c.File == "" }):
		err = errors.New("load: a query cannot be gone on with")
	case len(cp.Chunks) == 0: // no import is left for which the version must not be in the past
		now, err := l.opts.Store.CurrentTS(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("load: timestamp: %w", err)
		}
		hold, err := l.hold(ctx, now)
		return cp, hold, err
	default:
		hold, held := l.hold(ctx, cp.Version)
		if !errors.Is(held, kv.ErrSnapshotTooOld) {
			return cp, hold, held
		}
		err = held
	}
	l.opts.Bus.Emit(event.CheckpointDropped{Job: l.job(), Err: err})
	if err := l.wipe(ctx); err != nil {
		return nil, nil, err
	}
	return l.begin(ctx)
}

// begin returns the checkpoint of a load that begins, with the version of all that it imports, at which garbage collection is held.
func (l *loader) begin(ctx context.Context) (*checkpoint, kv.GCHold, error) {
	version, err := l.opts.Store.CurrentTS(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("load: version: %w", err)
	}
	hold, err := l.hold(ctx, version)
	return l.newCheckpoint(version), hold, err
}

// wipe deletes what the store has of the table.
func (l *loader) wipe(ctx context.Context) error {
	ranges, err := l.imported(ctx)
	if err != nil {
		return fmt.Errorf("load: look for what was imported: %w", err)
	}
	for _, r := range ranges {
		pieces, err := l.opts.Store.Ranges(ctx, r)
		if err != nil {
			return fmt.Errorf("load: delete what was imported: %w", err)
		}
		for _, piece := range pieces {
			if err := l.opts.Store.DeleteRange(ctx, piece.KeyRange); err != nil {
				return fmt.Errorf("load: delete what was imported: %w", err)
			}
		}
	}
	return nil
}

// imported returns the ranges of the table in which the store has a key.
func (l *loader) imported(ctx context.Context) (ranges []kv.KeyRange, err error) {
	now, err := l.opts.Store.CurrentTS(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := l.opts.Store.Snapshot(ctx, now)
	if err != nil {
		return nil, err
	}
	defer func() { err = errs.Combine(err, snap.Close()) }()
	for _, r := range l.layout.whole() {
		iter, err := snap.Iter(r)
		if err != nil {
			return nil, err
		}
		if iter.Valid() {
			ranges = append(ranges, r)
		}
		if err := iter.Close(); err != nil {
			return nil, err
		}
	}
	return ranges, nil
}

// mergers is the number of key ranges that may be merged at one time: one more than workers when those take all cores, because files
// are waited for until they are on disk.
func (l *loader) mergers() int {
	if n := l.share.Workers(); n < l.opts.MaxWorkers {
		return n
	}
	return l.opts.MaxWorkers + 1
}

// importBatchBytes is the size of finished files at which they are imported before all are finished: the less often that is so, the less
// often a process ends between two imports, of which the load cannot be gone on with.
const importBatchBytes = 4 << 30

// beforeImport records that rows which are among the chunks of cp may be in the store from now on.
func (l *loader) beforeImport(ctx context.Context, cp *checkpoint) error {
	if l.importing {
		return nil
	}
	l.importing = true
	return l.save(ctx, cp.importing())
}

// load reads, sorts and imports what cp says is left, and keeps cp at what is durable.
func (l *loader) load(ctx context.Context, cp *checkpoint) (err error) {
	before := slices.Clone(cp.Spaces)
	job, err := ingest.Open(ingest.JobOptions{
		ID: l.spec.JobID, Store: l.opts.Store, TempDir: l.opts.TempDir, Version: cp.Version,
		Indexes: l.layout.keySpaces(cp.Rows > 0), Share: l.share, Bus: l.opts.Bus,
		TargetFileBytes: l.opts.TargetFileBytes, ImportBatchBytes: importBatchBytes, Parallel: l.mergers, FS: l.opts.FS,
		BeforeImport: func(ctx context.Context) error { return l.beforeImport(ctx, cp) },
	})
	if err != nil {
		return err
	}
	defer func() {
		stats := job.Stats()
		l.addCosts(&stats.Costs)
		l.result.Files += stats.Files
		l.result.IngestedBytes += stats.Bytes
		l.result.PeakMemoryBytes, l.result.PeakTempBytes = stats.PeakMemoryBytes, stats.PeakTempBytes
		err = errs.Combine(err, job.Close())
	}()
	ids := rows.NewIDs(cp.IDs)
	cuts, err := l.partition(ctx, job, cp)
	if err != nil {
		return err
	}
	for len(cp.Chunks) > 0 {
		l.enter(Reading, nil)
		r, err := l.read(ctx, job, cp.Chunks, ids)
		if err != nil {
			return err
		}
		if err := l.bad.err(); err != nil {
			return err
		}
		if err := l.importRound(ctx, job, cp, len(r.left) == 0); err != nil {
			return err
		}
		cp.addWritten(before, l.layout, job, cuts)
		cp.Rows, cp.Read, cp.Chunks, cp.IDs = cp.Rows+r.rows, cp.Read+r.bytes, r.left, ids.State()
		for i, n := range r.partitions {
			cp.Partitions[i] += n
		}
		l.opts.Progress.allImported()
		if err := l.save(ctx, cp); err != nil {
			return err
		}
	}
	return nil
}

// importRound merges and imports what a round has read.
func (l *loader) importRound(ctx context.Context, job *ingest.Job, cp *checkpoint, last bool) error {
	l.importing = false
	l.enter(Importing, job.FlushProgress)
	l.result.Flushes++
	once := last && cp.Rows == 0 // one flush writes all
	job.Mergeable(!once || len(l.layout.physicals) > 1)
	err := job.Flush(ctx)
	if err == nil {
		l.addStatistics(cp, job, once)
		return nil
	}
	var duplicate *ingest.DuplicateError
	var same *ingest.SameKeyError
	var written *ingest.WrittenError
	switch {
	case errors.As(err, &duplicate):
		return l.duplicates(ctx, duplicate.Groups)
	case errors.As(err, &same):
		return l.duplicates(ctx, []*ingest.DuplicateGroup{{IndexID: same.IndexID, Key: same.Key, Rows: 2}})
	case errors.As(err, &written):
		return &MismatchError{
			Table: l.layout.table.Name.O, Of: l.layout.spaces[written.Index].name(), Want: written.Appended, Got: written.Written, Where: "written",
		}
	}
	return err
}

func (l *loader) save(ctx context.Context, cp *checkpoint) error {
	data, err := cp.encode()
	if err != nil {
		return err
	}
	if err := l.opts.SaveCheckpoint(ctx, data); err != nil {
		return fmt.Errorf("load: save checkpoint: %w", err)
	}
	return nil
}

// fillResult says what cp has.
func (l *loader) fillResult(cp *checkpoint) {
	r := &l.result
	r.Rows, r.SourceBytes, r.IDs = cp.Rows, cp.Read, cp.IDs
	r.RowsOf = make(map[int64]int64, len(cp.Partitions))
	for i, n := range cp.Partitions {
		r.RowsOf[l.layout.physicals[i]] = n
	}
	r.Entries = 0
	for _, s := range cp.Spaces[1:] {
		r.Entries += s.Totals.Entries
	}
	r.Statistics = l.statistics(cp)
}

// within is what a space has of a range of keys.
func (s *space) within(r kv.KeyRange) (ranges []kv.KeyRange) {
	for _, own := range s.ranges {
		if common := own.Intersect(r); !common.Empty() {
			ranges = append(ranges, common)
		}
	}
	return ranges
}
