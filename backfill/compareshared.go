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
// entries, and the sums are added. What differs is looked at by the one who asks. If the store sums its
// entries up itself, no entry has to go anywhere as long as nothing differs.

// sumUpShared has the crew sum up, if it takes the comparison. If it says equal, nothing differs, and how much there
// is of everything is taken over.
func (c *comparison) sumUpShared(ctx context.Context) (shared, equal bool, err error) {
	if c.opts.Crew == nil {
		return false, false, nil
	}
	if c.storeSums() && c.opts.Crew.SumsInStore() {
		if shared, equal, err = c.sharedSumsAgree(ctx); err != nil || !shared || equal {
			return shared, equal, err
		}
		c.progress.begin(0, 0, totalWeight(c.rows))
	}
	var total *sums // of the last cut
	results, shared, err := c.divide(ctx, func(n int) []Part {
		total = newSums(len(c.task.Indexes), totalWeight(c.rows), min(maxSharedBuckets, maxSharedSums/n))
		return c.cut(n, comparePart{Buckets: total.buckets()}, c.entries)
	})
	if err != nil || !shared {
		return shared, false, err
	}
	for _, r := range results {
		if err := total.add(r.Compared.Sums, r.Compared.Entries); err != nil {
			return true, false, err
		}
	}
	c.sums = total
	return true, false, nil
}

// sharedSumsAgree has the crew find out what storeSumsAgree does, if it takes the comparison.
func (c *comparison) sharedSumsAgree(ctx context.Context) (shared, equal bool, err error) {
	entries, err := c.storeEntries(ctx)
	if err != nil {
		return false, false, err
	}
	results, shared, err := c.divide(ctx, func(n int) []Part { return c.cut(n, comparePart{Stored: true}, entries) })
	if err != nil || !shared {
		return shared, false, err
	}
	s := c.newStoreSums()
	for _, r := range results {
		if err := s.addPart(r); err != nil {
			return true, false, err
		}
	}
	equal, err = s.agree()
	return true, equal, err
}

// divide has the crew compare parts, if it does, and adds up their rows and records.
func (c *comparison) divide(ctx context.Context, cut func(n int) []Part) (results []PartResult, shared bool, err error) {
	err = c.reporting(ctx, func(ctx context.Context) error {
		c.enter(stageCompare, nil)
		results, shared, err = c.opts.Crew.Build(ctx, SharedWork{
			TS: c.task.TS, Compare: true, Bytes: totalWeight(c.rows), Progress: c.progress.set, Cut: cut,
		})
		if err != nil || !shared {
			return err
		}
		for _, r := range results {
			if r.Compared == nil {
				return errors.New("a part of the comparison was not compared")
			}
			c.scanned.Add(r.Rows)
			c.keys.Add(r.Compared.Keys)
		}
		return nil
	})
	return results, shared, err
}

// addPart adds what a part has come to.
func (s *storeSums) addPart(r PartResult) error {
	n := len(s.given)
	if len(r.Totals) != n || len(r.Compared.Stored) != n || len(r.Compared.Records) != n {
		return fmt.Errorf("a part of the comparison has totals of %d, %d and %d indexes, not %d",
			len(r.Totals), len(r.Compared.Stored), len(r.Compared.Records), n)
	}
	for k := range n {
		s.given[k].Add(r.Totals[k])
		s.stored[k].Add(r.Compared.Stored[k])
		s.records[k] += r.Compared.Records[k]
	}
	return nil
}

// cut cuts all that is to be read into at most n parts like the one given.
func (c *comparison) cut(n int, like comparePart, entries []entryRange) []Part {
	parts := cutParts(c.rows, n)
	if len(parts) == 0 {
		parts = []Part{{}}
	}
	for i := range parts {
		part := like
		parts[i].Compare = &part
	}
	counts := fewerRanges(c.counts, n*maxPartRanges)
	for i, r := range counts {
		p := parts[i*len(parts)/len(counts)].Compare
		p.Counts = append(p.Counts, checkpointRange{Start: r.Start, End: r.End})
	}
	entries = fewerEntries(entries, n*maxPartRanges)
	for i, r := range entries {
		p := parts[i*len(parts)/len(entries)].Compare
		p.Entries = append(p.Entries, checkpointRange{Index: r.index, Start: r.Start, End: r.End})
	}
	return parts
}

// PartSpec says which part is to be compared.
type PartSpec struct {
	// Task names the entries of the whole table.
	Task
	Part Part
}

// ComparePart sums up what a part of a comparison has at spec.TS. It fails and obeys ctx as
// Compare does.
func ComparePart(ctx context.Context, opts executionOptions, spec PartSpec) (result PartResult, err error) {
	opts.EnsureDefaults()
	x, err := newExecution(opts, spec.Task)
	if err := errors.Join(opts.Validate(), err); err != nil {
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
	var stored *storeSums
	err = c.execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		if spec.Part.Compare.Stored {
			stored = c.newStoreSums()
			return stored.addAll(ctx, c.entries)
		}
		return c.read(ctx, true, c.sums.accumulator)
	})
	if err != nil {
		return PartResult{}, fmt.Errorf("backfill: compare: %w", err)
	}
	if stored != nil {
		return PartResult{
			Rows: c.scanned.Load(), Totals: stored.given,
			Compared: &comparedPart{Keys: c.keys.Load(), Stored: stored.stored, Records: stored.records},
		}, nil
	}
	compared := &comparedPart{Keys: c.keys.Load(), Sums: c.sums.encode()}
	for k := range spec.Indexes {
		compared.Entries = append(compared.Entries, c.sums.entries(k))
	}
	return PartResult{Rows: c.scanned.Load(), Compared: compared}, nil
}

// take makes a part what there is to be read.
func (c *comparison) take(p Part) error {
	switch {
	case p.Compares() && p.Compare.Stored && c.storeSums():
	case p.Compares() && !p.Compare.Stored && p.Compare.Buckets >= 2 && bits.OnesCount(uint(p.Compare.Buckets)) == 1:
		c.sums = sumsOf(len(c.task.Indexes), uint64(p.Compare.Buckets))
	default:
		return fmt.Errorf("backfill: compare: not a part of a comparison for job %d", c.task.JobID)
	}
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
