package backfill

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/internal/stage"
	"fastddl/kv"
)

// MismatchError says that the entries of an index as the store gives them back
// are not those that its rows have.
type MismatchError struct {
	Index string
	// Want is what the rows give, Got what the store holds, or what Where says.
	Want, Got ingest.Totals
	// Where says where the entries were summed up; empty is all that is stored.
	Where string
}

func (e *MismatchError) Error() string {
	sum := func(t ingest.Totals) uint64 { return t.Checksum ^ t.CRC } // there is one of them
	return fmt.Sprintf("backfill: index %s differs from its table: %d entries with checksum %x are %s, the rows have %d with %x",
		e.Index, e.Got.Entries, sum(e.Got), cmp.Or(e.Where, "stored"), e.Want.Entries, sum(e.Want))
}

const (
	// verifyCheckpointInterval is the least time between two checkpoints, unless
	// those of the scan come sooner.
	verifyCheckpointInterval = 5 * time.Second
	// lastCheckpointTimeout is how long a build whose context has ended tries to keep
	// what it has verified.
	lastCheckpointTimeout = time.Second
)

// verify reads a sample of the entries back if the build is proven; see verifySample. Otherwise it
// reads the entries of all indexes at the build's timestamp back, except
// for what cp says was read before, and compares them with those that were built;
// and it counts the table's rows by their keys, since what the scan has lost is
// missing on both sides of that comparison. A store that can sums up and counts itself.
// At last it looks the entries of some rows up, as TiDB makes them.
// Rows that will be compared with the indexes later are counted then, and entries that an
// older snapshot has left are found then. A store that sums up itself does that for the
// comparison; until that says that something differs, only some rows are looked up here.
func (b *build) verify(ctx context.Context, cp *checkpoint) (err error) {
	start := time.Now()
	defer func() { b.meter.verifying += time.Since(start) }()

	snap, err := b.opts.Store.Snapshot(ctx, b.Task.TS)
	if err != nil {
		return fmt.Errorf("backfill: verify: %w", err)
	}
	defer func() { err = errs.Combine(err, snap.Close()) }()
	if b.defers {
		err := compare.SpotCheck(ctx, b.Execution, snap, make([]bool, len(b.Task.Indexes)))
		if b.result.Deferred = err == nil; b.result.Deferred {
			b.result.Given = cp.wanted()
			return nil
		}
		if !errors.As(err, new(*compare.EntryError)) {
			return fmt.Errorf("backfill: verify: %w", err)
		}
		b.defers = false // rows may have equal values: sums show what is wrong
	}
	v := &verifier{b: b, snap: snap, cp: cp, saved: start}
	v.sums, _ = b.opts.Store.(kv.Checksummer)
	if b.proven(cp) {
		if only, err := v.onlyImported(ctx); err != nil {
			return err
		} else if only {
			return v.verifySample(ctx)
		}
	}
	if cp.Verify == nil {
		cp.Verify = b.unverified()
	}
	b.Enter(stage.Verify.String(), v.progress)
	got, err := v.run(ctx)
	if err != nil {
		return fmt.Errorf("backfill: verify: %w", err)
	}
	if b.counts && !b.rowsProven(cp) {
		if keys := b.count.keys.Load(); keys != cp.Rows {
			return &execution.RowCountError{Table: b.Task.Table.Name.O, Scanned: cp.Rows, Keys: keys}
		}
	}
	differ := make([]bool, len(got))
	for i, want := range cp.wanted() {
		if differ[i] = got[i] != want; differ[i] && !b.takesLeftovers(i, want, got[i]) {
			return &MismatchError{Index: b.Task.Indexes[i].Name.O, Want: want, Got: got[i]}
		}
	}
	if err := compare.SpotCheck(ctx, b.Execution, snap, differ); err != nil {
		return fmt.Errorf("backfill: verify: %w", err)
	}
	return nil
}

// takesLeftovers says that the i-th index may differ, because what it has too many may be
// entries of an older snapshot, which the comparison names. What is missing is built again first.
func (b *build) takesLeftovers(i int, want, got ingest.Totals) bool {
	return b.leftovers && b.Task.Indexes[i].Unique && got.Entries > want.Entries
}

// verifier reads the indexes of a build back and keeps cp.Verify at what was
// read. The entries at S do not change, and their totals add up in any order, so
// no range has to be read twice.
type verifier struct {
	b      *build
	snap   kv.Snapshot
	sums   kv.Checksummer // nil if entries are to be read
	ranges []verifyRange  // in order of index and key
	counts int            // ranges of the table whose records were not begun to be counted

	mu     sync.Mutex // guards the fields below and the done of ranges
	cp     *checkpoint
	saved  time.Time // when cp was
	behind bool      // cp has something that was not saved
}

// verifyRange is a range of an index that is read back.
type verifyRange struct {
	index int // in the spec
	keys  kv.KeyRange
	done  bool
}

// run reads what is left and returns the totals of everything.
func (v *verifier) run(ctx context.Context) ([]ingest.Totals, error) {
	if err := v.plan(ctx); err != nil {
		return nil, err
	}
	workers := v.b.Share.Workers
	if v.sums != nil {
		workers = v.b.StoreParallel
	}
	err := parallel.Do(ctx, v.counts+len(v.ranges), workers, func(ctx context.Context, i int) error {
		if i < v.counts {
			_, err := v.b.count.step(ctx)
			return err
		}
		return v.read(ctx, i-v.counts)
	})
	if err == nil && v.b.count != nil {
		_, err = v.b.count.finish()
	}
	if err != nil {
		return nil, errs.Combine(err, v.saveLast(ctx))
	}
	return v.cp.Verify.Totals, nil
}

// unverified is the state in which nothing has been read.
func (b *build) unverified() *checkpointVerify {
	state := &checkpointVerify{Totals: make([]ingest.Totals, len(b.Task.Indexes))}
	for _, r := range b.IndexRanges() {
		state.Remaining = append(state.Remaining, keyrange.StoredIndexed{Index: r.Index, Start: r.Start, End: r.End})
	}
	return state
}

// plan cuts what is left into ranges.
func (v *verifier) plan(ctx context.Context) error {
	left := v.cp.Verify.Remaining
	atLeast := 1 + execution.RangesPerWorker*v.b.opts.MaxWorkers/max(1, len(left))
	for _, r := range left {
		parts, err := v.planIndex(ctx, kv.KeyRange{Start: r.Start, End: r.End}, v.cp.wanted()[r.Index].Entries, atLeast)
		if err != nil {
			return err
		}
		for _, keys := range parts {
			v.ranges = append(v.ranges, verifyRange{index: r.Index, keys: keys})
		}
	}
	if !v.b.counts || v.b.rowsProven(v.cp) {
		return nil
	}
	count, err := v.b.planCount(ctx, v.cp.Rows)
	if err != nil {
		return err
	}
	if v.sums != nil { // waiting for stores takes no core from the others: the counting goes on beside them
		v.counts = count.left()
		return nil
	}
	v.counts, err = count.finish()
	return err
}

// planIndex cuts a range of an index that has so many entries: where the store cuts it, and finer if that is too
// coarse to ask at several places, if the store sums up.
func (v *verifier) planIndex(ctx context.Context, r kv.KeyRange, entries int64, atLeast int) (parts []kv.KeyRange, err error) {
	if v.sums != nil {
		if parts, err = keyrange.OfStore(ctx, v.b.opts.Store, r); err != nil {
			return nil, err
		}
		return keyrange.CutRanges(parts, v.b.cuts, int(min(execution.StoreRequests, entries/checksumEntries))), nil
	}
	tasks, err := keyrange.Plan(ctx, v.b.opts.Store, v.snap, r, execution.VerifyRangeBytes, atLeast)
	for _, t := range tasks {
		parts = append(parts, t.KeyRange)
	}
	return parts, err
}

// progress is how much of the entries has been read, 0 to 1.
func (v *verifier) progress() float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	var read, want int64
	for i, t := range v.cp.wanted() {
		want += t.Entries
		read += v.cp.Verify.Totals[i].Entries
	}
	if want == 0 {
		return 1
	}
	return min(1, float64(read)/float64(want))
}

// read reads the i-th range.
func (v *verifier) read(ctx context.Context, i int) error {
	r := &v.ranges[i]
	totals, err := v.totals(ctx, r.keys)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cp.Verify.Totals[r.index].Add(totals)
	r.done, v.behind = true, true
	if time.Since(v.saved) < min(verifyCheckpointInterval, v.b.opts.checkpointInterval()) {
		return nil
	}
	return v.save(ctx)
}

// save makes what was read durable. v.mu must be held.
func (v *verifier) save(ctx context.Context) error {
	v.cp.Verify.Remaining = remainingRanges(v.ranges)
	if err := v.b.save(ctx, v.cp); err != nil {
		return err
	}
	v.saved, v.behind = time.Now(), false
	return nil
}

// saveLast saves what was read before an error, or before the job was paused.
func (v *verifier) saveLast(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.behind {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCheckpointTimeout)
	defer cancel()
	return v.save(ctx)
}

// remainingRanges returns what is not done of ranges, neighbours joined.
func remainingRanges(ranges []verifyRange) []keyrange.StoredIndexed {
	left := []keyrange.StoredIndexed{}
	for _, r := range ranges {
		if r.done {
			continue
		}
		if n := len(left) - 1; n >= 0 && left[n].Index == r.index && bytes.Equal(left[n].End, r.keys.Start) {
			left[n].End = r.keys.End
			continue
		}
		left = append(left, keyrange.StoredIndexed{Index: r.index, Start: r.keys.Start, End: r.keys.End})
	}
	return left
}

// totals returns those of the entries in r.
func (v *verifier) totals(ctx context.Context, r kv.KeyRange) (ingest.Totals, error) {
	if v.sums == nil {
		return v.b.readTotals(ctx, v.snap, r)
	}
	return v.b.storeTotals(ctx, v.sums, r)
}

// storeTotals has the store sum up the entries in r.
func (b *build) storeTotals(ctx context.Context, sums kv.Checksummer, r kv.KeyRange) (ingest.Totals, error) {
	totals, _, err := b.StoreSum(ctx, sums, r)
	return totals, err
}

// readTotals reads the entries in r. The totals leave the prefix of their keys
// out.
func (b *build) readTotals(ctx context.Context, snap kv.Snapshot, r kv.KeyRange) (t ingest.Totals, err error) {
	pacer, end := b.StartVerifying()
	defer end()

	iter, err := snap.Iter(r)
	if err != nil {
		return t, err
	}
	defer iter.Close()
	var buf []byte
	for iter.Valid() {
		if t.Entries%execution.VerifyBatch == 0 {
			if err := errors.Join(ctx.Err(), pacer.Pace(ctx)); err != nil {
				return t, err
			}
		}
		key := iter.Key()[encode.PrefixLen:]
		buf = append(append(buf[:0], key...), iter.Value()...)
		t.AddEntry(buf, len(key))
		if err := iter.Next(); err != nil {
			return t, err
		}
	}
	return t, nil
}
