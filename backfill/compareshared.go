package backfill

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// A comparison that several nodes share: each sums up some of the rows and some of the
// entries, and the sums are added. What differs is looked at by the one who asks.

// sumUpShared has the crew sum up, if it takes the comparison.
func (c *comparison) sumUpShared(ctx context.Context) (shared bool, err error) {
	if c.opts.Crew == nil {
		return false, nil
	}
	err = c.reporting(ctx, func(ctx context.Context) error {
		c.enter(stageCompare, nil)
		var total *sums // of the last cut
		var results []PartResult
		results, shared, err = c.opts.Crew.Build(ctx, SharedWork{
			TS: c.task.TS, Compare: true, Bytes: totalWeight(c.rows), Progress: c.progress.set,
			Cut: func(n int) []Part {
				total = newSums(len(c.task.Indexes), totalWeight(c.rows), min(maxSharedBuckets, maxSharedSums/n))
				return c.cut(n, total.buckets())
			},
		})
		if err != nil || !shared {
			return err
		}
		for _, r := range results {
			if r.Compared == nil {
				return errors.New("a part of the comparison was not compared")
			}
			if err := total.add(r.Compared.Sums, r.Compared.Entries); err != nil {
				return err
			}
			c.scanned.Add(r.Rows)
			c.keys.Add(r.Compared.Keys)
		}
		c.sums = total
		return nil
	})
	return shared, err
}

// cut cuts all that is to be read into at most n parts.
func (c *comparison) cut(n, buckets int) []Part {
	parts := cutParts(c.rows, n)
	if len(parts) == 0 {
		parts = []Part{{}}
	}
	for i := range parts {
		parts[i].Compare = &comparePart{Buckets: buckets}
	}
	counts := fewerRanges(c.counts, n*maxPartRanges)
	for i, r := range counts {
		p := parts[i*len(parts)/len(counts)].Compare
		p.Counts = append(p.Counts, checkpointRange{Start: r.Start, End: r.End})
	}
	entries := fewerEntries(c.entries, n*maxPartRanges)
	for i, r := range entries {
		p := parts[i*len(parts)/len(entries)].Compare
		p.Entries = append(p.Entries, checkpointRange{Index: r.index, Start: r.Start, End: r.End})
	}
	return parts
}

// ComparePart sums up what a part of a comparison has at spec.TS. It fails and obeys ctx as
// Compare does.
func ComparePart(ctx context.Context, opts Options, spec PartSpec) (result PartResult, err error) {
	opts.EnsureDefaults()
	x, err := newExecution(opts, spec.Task)
	if err := errors.Join(invalid("options", opts.problems()), err); err != nil {
		return PartResult{}, err
	}
	c := &comparison{execution: x}
	if err := c.take(spec.Part); err != nil {
		return PartResult{}, err
	}
	if c.snap, err = opts.Store.Snapshot(ctx, spec.TS); err != nil {
		return PartResult{}, ended(ctx, fmt.Errorf("backfill: compare: %w", err))
	}
	defer func() { err = errs.Also(err, c.snap.Close()) }()
	c.progress.begin(0, 0, totalWeight(c.rows))
	err = c.execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error { return c.read(ctx, true, c.sums.accumulator) })
	if err != nil {
		return PartResult{}, fmt.Errorf("backfill: compare: %w", err)
	}
	compared := &comparedPart{Keys: c.keys.Load(), Sums: c.sums.encode()}
	for k := range spec.Indexes {
		compared.Entries = append(compared.Entries, c.sums.entries(k))
	}
	return PartResult{Rows: c.scanned.Load(), Compared: compared}, nil
}

// take makes a part what there is to be read.
func (c *comparison) take(p Part) error {
	if !p.Compares() || p.Compare.Buckets < 2 || bits.OnesCount(uint(p.Compare.Buckets)) != 1 {
		return fmt.Errorf("backfill: compare: not a part of a comparison for job %d", c.task.JobID)
	}
	c.sums = sumsOf(len(c.task.Indexes), uint64(p.Compare.Buckets))
	c.rows = decodeTasks(p.Tasks)
	if !tasksIn(c.task.Table, c.rows) {
		return fmt.Errorf("backfill: compare: a part of job %d is not of table %s", c.task.JobID, c.task.Table.Name.O)
	}
	for _, r := range p.Compare.Counts {
		c.counts = append(c.counts, kv.KeyRange{Start: r.Start, End: r.End})
	}
	for _, r := range p.Compare.Entries {
		if r.Index < 0 || r.Index >= len(c.task.Indexes) {
			return fmt.Errorf("backfill: compare: a part of job %d has entries of index %d", c.task.JobID, r.Index)
		}
		c.entries = append(c.entries, entryRange{kv.KeyRange{Start: r.Start, End: r.End}, r.Index})
	}
	return nil
}
