package backfill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/ingest"
	"fastddl/internal/parallel"
	"fastddl/internal/stage"
	"fastddl/kv"
)

const (
	// fewEntries is up to how many entries of an index are all read back.
	fewEntries = 50_000
	// minSampled is how many intervals of an index with more are read back at least; one in sampleShare of its entries
	// is read at most, unless that is fewer intervals.
	minSampled, sampleShare = 8, 32
)

// rowsProven says that all rows that cp has were counted by the store's scans, so that they need not be counted again.
func (b *build) rowsProven(cp *checkpoint) bool {
	return b.auto && !cp.Rebuilt && cp.Visited == cp.Rows
}

// proven says that what was built needs no second reading: rows and entries were counted and summed up on their way
// into the store, and the written entries by intervals of which some can be read back. A unique index that several nodes
// have built is read, since none of them has seen all entries with equal keys; and one on a generated column that is not
// stored, which DML may have computed by other settings before S.
func (b *build) proven(cp *checkpoint) bool {
	if !b.rowsProven(cp) {
		return false
	}
	for i, idx := range b.Task.Indexes {
		if cp.Shared && idx.Unique || encode.OnVirtual(b.Task.Table, idx) || !canSample(cp.Indexes[i]) {
			return false
		}
	}
	return true
}

// canSample says that an index has few entries, or enough intervals that have some, and all of them.
func canSample(index checkpointIndex) bool {
	return index.Totals.Entries <= fewEntries ||
		occupied(index.Intervals) >= minSampled && ingest.SumTotals(index.Intervals.Sums) == index.Totals
}

// occupied is how many intervals have entries.
func occupied(v execution.Intervals) (n int) {
	for _, sum := range v.Sums {
		if sum.Entries > 0 {
			n++
		}
	}
	return n
}

// sampledKeys is some adjoining intervals of an index, which are read back.
type sampledKeys struct {
	index int // in the spec
	keys  kv.KeyRange
	want  ingest.Totals

	mu  sync.Mutex
	got ingest.Totals
}

// chooseSample chooses what is read back of the i-th index: all of few entries; otherwise at least minSampled intervals
// with entries, each of which is as likely as the others to be chosen.
func chooseSample(r *rand.Rand, i int, index checkpointIndex) (chosen []*sampledKeys) {
	v := index.Intervals
	if index.Totals.Entries <= fewEntries {
		return []*sampledKeys{{index: i, want: index.Totals}}
	}
	atLeast := max(minSampled, (occupied(v)+sampleShare-1)/sampleShare)
	take := make([]bool, len(v.Sums))
	var entries int64
	for _, k := range r.Perm(len(v.Sums)) {
		n := v.Sums[k].Entries
		if atLeast <= 0 && entries+n > index.Totals.Entries/sampleShare {
			break
		}
		if n > 0 {
			atLeast--
		}
		take[k] = true
		entries += n
	}
	for k, taken := range take {
		switch {
		case !taken:
		case k > 0 && take[k-1]:
			last := chosen[len(chosen)-1]
			last.keys.End = v.Keys(k).End
			last.want.Add(v.Sums[k])
		default:
			chosen = append(chosen, &sampledKeys{index: i, keys: v.Keys(k), want: v.Sums[k]})
		}
	}
	return chosen
}

// verifySample reads intervals back that cp's seed chooses, and compares them with what was written to them. Then it looks
// the entries of some rows up, as TiDB makes them. The build is proven.
func (v *verifier) verifySample(ctx context.Context) error {
	if v.cp.Seed == 0 {
		v.cp.Seed = max(1, rand.Uint64())
		if err := v.b.save(ctx, v.cp); err != nil {
			return err
		}
	}
	r := rand.New(rand.NewPCG(v.cp.Seed, 0))
	var chosen []*sampledKeys
	var want, all int64
	for i, index := range v.cp.Indexes {
		all += index.Totals.Entries
		for _, s := range chooseSample(r, i, index) {
			chosen = append(chosen, s)
			want += s.want.Entries
		}
	}
	var read atomic.Int64
	v.b.Enter(stage.Verify.String(), func() float64 { return min(1, float64(read.Load())/float64(max(1, want))) })
	if err := v.readSample(ctx, chosen, &read); err != nil {
		return fmt.Errorf("backfill: verify: %w", err)
	}
	v.b.opts.Bus.Emit(SampleRead{Job: v.b.Job(), Seed: v.cp.Seed, Read: read.Load(), Entries: all})
	for _, s := range chosen {
		if s.got != s.want {
			return &MismatchError{Index: v.b.Task.Indexes[s.index].Name.O, Want: s.want, Got: s.got, Where: v.where(s)}
		}
	}
	if err := compare.SpotCheck(ctx, v.b.Execution, v.snap, make([]bool, len(v.b.Task.Indexes))); err != nil {
		return fmt.Errorf("backfill: verify: %w", err)
	}
	v.b.result.Sampled = want < all
	return nil
}

// where says where a sample was read, in words for a MismatchError.
func (v *verifier) where(s *sampledKeys) string {
	if s.want == v.cp.Indexes[s.index].Totals {
		return ""
	}
	return "stored in a part of it"
}

// readSample reads what was chosen, several ranges at a time.
func (v *verifier) readSample(ctx context.Context, chosen []*sampledKeys, read *atomic.Int64) error {
	type part struct {
		of   *sampledKeys
		keys kv.KeyRange
	}
	var parts []part
	atLeast := 1 + execution.RangesPerWorker*v.b.opts.MaxWorkers/max(1, len(chosen))
	ranges := v.b.IndexRanges()
	for _, s := range chosen {
		for _, r := range ranges {
			keys := r.KeyRange.Intersect(s.keys)
			if r.Index != s.index || keys.Empty() {
				continue
			}
			cut, err := v.planIndex(ctx, keys, s.want.Entries, atLeast)
			if err != nil {
				return err
			}
			for _, keys := range cut {
				parts = append(parts, part{s, keys})
			}
		}
	}
	workers := v.b.Share.Workers
	if v.sums != nil {
		workers = v.b.StoreParallel
	}
	return parallel.Do(ctx, len(parts), workers, func(ctx context.Context, i int) error {
		totals, err := v.totals(ctx, parts[i].keys)
		if err != nil {
			return err
		}
		read.Add(totals.Entries)
		parts[i].of.mu.Lock()
		defer parts[i].of.mu.Unlock()
		parts[i].of.got.Add(totals)
		return nil
	})
}
