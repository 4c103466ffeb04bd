package backfill

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/background"
	"fastddl/internal/parallel"
	"fastddl/internal/stage"
	"fastddl/kv"
)

// MismatchError says that the entries of an index as the store gives them back
// are not those that its rows have.
type MismatchError struct {
	Index string
	// Want is what the rows give, Got what the store holds.
	Want, Got ingest.Totals
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("backfill: index %s differs from its table: %d entries with checksum %x are stored, the rows have %d with %x",
		e.Index, e.Got.Entries, e.Got.Checksum, e.Want.Entries, e.Want.Checksum)
}

const (
	// verifyTaskBytes is the size of the ranges that an index is read back in.
	verifyTaskBytes = 4 << 20
	// tasksPerWorker evens out ranges of different cost.
	tasksPerWorker = 4
)

// verify reads the entries of all indexes at the build's timestamp back and
// compares them with want.
func (b *build) verify(ctx context.Context, want []ingest.Totals) error {
	start := time.Now()
	defer func() { b.meter.verifying += time.Since(start) }()
	b.enter(stage.Verify.String())

	snap, err := b.opts.Store.Snapshot(ctx, b.spec.TS)
	if err != nil {
		return fmt.Errorf("backfill: verify: %w", err)
	}
	defer snap.Close()
	ranges, err := b.verifyRanges(ctx, snap)
	if err != nil {
		return fmt.Errorf("backfill: verify: %w", err)
	}
	got := make([]ingest.Totals, len(want))
	var mu sync.Mutex
	err = parallel.Do(ctx, len(ranges), b.opts.workerLimit, func(ctx context.Context, i int) error {
		r := ranges[i]
		totals, err := b.readTotals(ctx, snap, r.keys, r.prefix)
		mu.Lock()
		defer mu.Unlock()
		got[r.index].Add(totals)
		return err
	})
	if err != nil {
		return fmt.Errorf("backfill: verify: %w", err)
	}
	for i := range want {
		if got[i] != want[i] {
			return &MismatchError{Index: b.spec.Indexes[i].Name.O, Want: want[i], Got: got[i]}
		}
	}
	return nil
}

// verifyRange is a part of an index that is read back.
type verifyRange struct {
	index  int // in the spec
	prefix int // length of the index prefix
	keys   kv.KeyRange
}

// verifyRanges cuts all indexes into ranges.
func (b *build) verifyRanges(ctx context.Context, snap kv.Snapshot) ([]verifyRange, error) {
	var ranges []verifyRange
	for i, idx := range b.spec.Indexes {
		prefix := indexPrefix(b.spec.Table.ID, idx.ID)
		tasks, err := planRange(ctx, b.opts.Store, snap, kv.PrefixRange(prefix), verifyTaskBytes, tasksPerWorker*b.opts.MaxWorkers)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			ranges = append(ranges, verifyRange{index: i, prefix: len(prefix), keys: t.KeyRange})
		}
	}
	return ranges, nil
}

// readTotals reads the entries in r, whose keys begin with prefix bytes that
// the totals leave out.
func (b *build) readTotals(ctx context.Context, snap kv.Snapshot, r kv.KeyRange, prefix int) (t ingest.Totals, err error) {
	background.Thread()
	clock := stage.Start(stage.Verify)
	defer func() { b.addCosts(clock.Stop()) }()

	iter, err := snap.Iter(r)
	if err != nil {
		return t, err
	}
	defer iter.Close()
	var buf []byte
	for iter.Valid() {
		if t.Entries%4096 == 0 && ctx.Err() != nil {
			return t, ctx.Err()
		}
		key := iter.Key()[prefix:]
		buf = append(append(buf[:0], key...), iter.Value()...)
		t.AddEntry(buf, len(key))
		if err := iter.Next(); err != nil {
			return t, err
		}
	}
	return t, nil
}

// planRange cuts r into tasks, within the keys that exist at the snapshot.
func planRange(ctx context.Context, store kv.Store, snap kv.Snapshot, r kv.KeyRange, targetBytes uint64, atLeast int) ([]task, error) {
	bounds, err := keyBounds(snap, r)
	if err != nil || bounds.Empty() {
		return nil, err
	}
	ranges, err := store.Ranges(ctx, bounds)
	if err != nil {
		return nil, err
	}
	return planTasks(ranges, bounds, targetBytes, atLeast), nil
}

// keyBounds returns the range from the first key of r to the last; empty if
// there is none.
func keyBounds(snap kv.Snapshot, r kv.KeyRange) (kv.KeyRange, error) {
	none := kv.KeyRange{Start: r.Start, End: r.Start}
	first, err := snap.Iter(r)
	if err != nil {
		return none, err
	}
	defer first.Close()
	if !first.Valid() {
		return none, nil
	}
	last, err := snap.IterReverse(r)
	if err != nil {
		return none, err
	}
	defer last.Close()
	return kv.KeyRange{
		Start: append([]byte(nil), first.Key()...),
		End:   kv.NextKey(last.Key()),
	}, nil
}

// job names the build in events.
func (b *build) job() event.Job { return event.Job{ID: b.spec.JobID} }

// enter reports a new stage.
func (b *build) enter(name string) {
	b.opts.Bus.Emit(event.StageChanged{Job: b.job(), Stage: name})
}
