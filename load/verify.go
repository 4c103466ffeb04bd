package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/config"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/internal/stage"
	"fastddl/kv"
)

const (
	// fewEntries is up to how many entries of a space are all read back.
	fewEntries = 50_000
	// minSampled is how many intervals of a space with more are read back at least; one in sampleShare of its entries is read
	// otherwise.
	minSampled, sampleShare = 8, 32
)

// checkEntries fails unless there is one entry of each index for each row.
func (l *loader) checkEntries(cp *checkpoint) error {
	for i := range l.layout.spaces {
		s, n := &l.layout.spaces[i], cp.Spaces[i].Totals.Entries
		if n != cp.Rows && (s.index == nil || !s.index.MVIndex) {
			return &MismatchError{
				Table: l.layout.table.Name.O, Of: s.name(), Want: ingest.Totals{Entries: cp.Rows}, Got: ingest.Totals{Entries: n}, Where: "encoded",
			}
		}
	}
	return nil
}

// readBack is a range of a space that is read back, and what was written to it.
type readBack struct {
	space int
	keys  kv.KeyRange
	want  ingest.Totals

	mu  sync.Mutex
	got ingest.Totals
}

// verify reads back what cp says is in the store, or a sample of it, and compares it with what was written. Then it looks the entries of
// some rows up.
func (l *loader) verify(ctx context.Context, cp *checkpoint) (err error) {
	now, err := l.opts.Store.CurrentTS(ctx)
	if err != nil {
		return fmt.Errorf("load: verify: %w", err)
	}
	snap, err := l.opts.Store.Snapshot(ctx, now)
	if err != nil {
		return fmt.Errorf("load: verify: %w", err)
	}
	defer func() { err = errs.Combine(err, snap.Close()) }()
	random := rand.New(rand.NewPCG(cp.Version, uint64(l.spec.JobID)))
	var chosen []*readBack
	var want, all int64
	for i := range cp.Spaces {
		all += cp.Spaces[i].Totals.Entries
		for _, r := range chooseIntervals(random, i, &cp.Spaces[i], l.spec.Verify == config.VerifyAuto) {
			chosen = append(chosen, r)
			want += r.want.Entries
		}
	}
	var read atomic.Int64
	l.enter(Verifying, func() float64 { return float64(read.Load()) / float64(max(1, want)) })
	if err := l.readBack(ctx, snap, chosen, &read); err != nil {
		return fmt.Errorf("load: verify: %w", err)
	}
	for _, r := range chosen {
		if r.got != r.want {
			return &MismatchError{Table: l.layout.table.Name.O, Of: l.layout.spaces[r.space].name(), Want: r.want, Got: r.got, Where: "stored"}
		}
	}
	if err := l.spotCheck(ctx, snap); err != nil {
		return fmt.Errorf("load: verify: %w", err)
	}
	l.result.Sampled = want < all
	return nil
}

// chooseIntervals chooses what is read back of the i-th space: all of it; or, if a sample is enough and the space has many entries, some
// intervals, each as likely as the others.
func chooseIntervals(random *rand.Rand, i int, known *checkpointSpace, sample bool) (chosen []*readBack) {
	v := known.Intervals
	occupied := 0
	for _, sum := range v.Sums {
		if sum.Entries > 0 {
			occupied++
		}
	}
	if !sample || known.Totals.Entries <= fewEntries || occupied <= minSampled {
		return []*readBack{{space: i, want: known.Totals}}
	}
	left := max(minSampled, (occupied+sampleShare-1)/sampleShare)
	for _, k := range random.Perm(len(v.Sums)) {
		if left == 0 {
			break
		}
		if v.Sums[k].Entries > 0 {
			left--
			chosen = append(chosen, &readBack{space: i, keys: v.Keys(k), want: v.Sums[k]})
		}
	}
	return chosen
}

// readBack reads what was chosen, several ranges at a time.
func (l *loader) readBack(ctx context.Context, snap kv.Snapshot, chosen []*readBack, read *atomic.Int64) error {
	type part struct {
		of   *readBack
		keys kv.KeyRange
	}
	var parts []part
	for _, r := range chosen {
		for _, keys := range l.layout.spaces[r.space].within(r.keys) {
			if r.want.Entries <= fewEntries {
				parts = append(parts, part{r, keys})
				continue
			}
			cut, err := keyrange.Plan(ctx, l.opts.Store, snap, keys, execution.VerifyRangeBytes, 1)
			if err != nil {
				return err
			}
			for _, c := range cut {
				parts = append(parts, part{r, c.KeyRange})
			}
		}
	}
	return parallel.Do(ctx, len(parts), l.share.Workers, func(ctx context.Context, i int) error {
		totals, err := l.totals(ctx, snap, parts[i].of.space, parts[i].keys)
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

// totals returns those of what the store has in r, a range of the i-th space.
func (l *loader) totals(ctx context.Context, snap kv.Snapshot, i int, r kv.KeyRange) (t ingest.Totals, err error) {
	flow.BackgroundThread()
	clock := stage.Start(stage.Verify)
	defer func() { l.addCosts(clock.Stop()) }()
	pacer := l.share.NewPacer(clock)
	prefix := l.layout.spaces[i].spec.Prefix
	_, forStore := l.opts.Store.(kv.Checksummer)
	prefixCRC := kv.UpdateCRC(0, prefix)

	iter, err := snap.Iter(r)
	if err != nil {
		return t, err
	}
	defer func() { err = errs.Combine(err, iter.Close()) }()
	var buf []byte
	for iter.Valid() {
		if t.Entries%execution.VerifyBatch == 0 {
			if err := errors.Join(ctx.Err(), pacer.Pace(ctx)); err != nil {
				return t, err
			}
		}
		key := iter.Key()[len(prefix):]
		buf = append(append(buf[:0], key...), iter.Value()...)
		if forStore {
			t.AddForStore(prefixCRC, buf)
		} else {
			t.AddEntry(buf, len(key))
		}
		if err := iter.Next(); err != nil {
			return t, err
		}
	}
	return t, nil
}

// spotCheck looks the entries of some rows up, as TiDB makes them of what is stored: sums do not show that rows and entries are of
// different values. Entries that are computed by the statement's settings are left out.
func (l *loader) spotCheck(ctx context.Context, snap kv.Snapshot) error {
	var indexes []*model.IndexInfo
	for _, s := range l.layout.spaces[1:] {
		if !encode.OnVirtual(l.layout.table, s.index) {
			indexes = append(indexes, s.index)
		}
	}
	if len(indexes) == 0 {
		return nil
	}
	slices.SortFunc(indexes, func(a, b *model.IndexInfo) int { return cmp.Compare(a.ID, b.ID) })
	opts := l.opts.common()
	opts.EnsureDefaults()
	x, err := execution.New(opts, encode.Task{
		JobID: l.spec.JobID, Table: l.layout.table, Indexes: indexes, TS: snap.TS(),
	})
	if errors.Is(err, encode.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	return compare.SpotCheck(ctx, x, snap, make([]bool, len(indexes)))
}
