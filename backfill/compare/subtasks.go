package compare

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// A comparison that several nodes share: each sums up some of the rows and some of the
// entries, and the sums are added. The node that divided it compares the buckets that differ key by key. If the store sums its
// entries up itself, no entry has to go anywhere as long as nothing differs.

// sumUpDistributed has the scheduler divide the comparison, if it does. If it returns equal, nothing differs, and the
// result is complete.
func (c *comparison) sumUpDistributed(ctx context.Context) (shared, equal bool, err error) {
	if c.Opts.Scheduler == nil {
		return false, false, nil
	}
	if c.StoreSums() && c.Opts.Scheduler.SumsInStore() {
		if shared, equal, err = c.distributedSumsAgree(ctx); err != nil || !shared || equal {
			return shared, equal, err
		}
		c.Progress.Begin(0, 0, keyrange.TotalWeight(c.rows))
	}
	var total *sums // of the last cut
	results, shared, err := c.divide(ctx, func(n int) []execution.Subtask {
		total = newSums(len(c.Task.Indexes), keyrange.TotalWeight(c.rows), min(maxSubtaskBuckets, maxSubtaskSums/n))
		return c.cut(n, execution.CompareSpec{Buckets: total.buckets()}, c.entries)
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

// distributedSumsAgree is storeSumsAgree, divided by the scheduler, if it divides the comparison.
func (c *comparison) distributedSumsAgree(ctx context.Context) (shared, equal bool, err error) {
	entries, err := c.storeEntries(ctx)
	if err != nil {
		return false, false, err
	}
	results, shared, err := c.divide(ctx, func(n int) []execution.Subtask { return c.cut(n, execution.CompareSpec{Stored: true}, entries) })
	if err != nil || !shared {
		return shared, false, err
	}
	s := c.newStoreSums()
	for _, r := range results {
		if err := s.addSubtask(r); err != nil {
			return true, false, err
		}
	}
	equal, err = s.agree()
	return true, equal, err
}

// divide has the scheduler run subtasks, if it does, and adds up their rows and records.
func (c *comparison) divide(ctx context.Context, cut func(n int) []execution.Subtask) (results []execution.SubtaskResult, shared bool, err error) {
	err = c.Reporting(ctx, func(ctx context.Context) error {
		c.Enter(stageCompare, nil)
		results, shared, err = c.Opts.Scheduler.Build(ctx, execution.Work{
			TS: c.Task.TS, Compare: true, Bytes: keyrange.TotalWeight(c.rows), Progress: c.Progress.Set, Cut: cut,
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

// addSubtask adds the result of a subtask.
func (s *storeSums) addSubtask(r execution.SubtaskResult) error {
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

// cut cuts all that is to be read into at most n subtasks, each with a copy of like.
func (c *comparison) cut(n int, like execution.CompareSpec, entries []keyrange.Indexed) []execution.Subtask {
	subtasks := execution.CutSubtasks(c.rows, n)
	if len(subtasks) == 0 {
		subtasks = []execution.Subtask{{}}
	}
	for i := range subtasks {
		spec := like
		subtasks[i].Compare = &spec
	}
	counts := keyrange.FewerRanges(c.counts, n*execution.MaxSubtaskRanges)
	for i, r := range counts {
		spec := subtasks[i*len(subtasks)/len(counts)].Compare
		spec.Counts = append(spec.Counts, keyrange.StoredIndexed{Start: r.Start, End: r.End})
	}
	entries = keyrange.FewerIndexed(entries, n*execution.MaxSubtaskRanges)
	for i, r := range entries {
		spec := subtasks[i*len(subtasks)/len(entries)].Compare
		spec.Entries = append(spec.Entries, keyrange.StoredIndexed{Index: r.Index, Start: r.Start, End: r.End})
	}
	return subtasks
}

// SubtaskSpec says which subtask is to be run.
type SubtaskSpec struct {
	// Task names the entries of the whole table.
	encode.Task
	Subtask execution.Subtask
}

// RunSubtask sums up the rows and entries of a subtask at spec.TS. It fails and obeys ctx as
// Run does.
func RunSubtask(ctx context.Context, opts execution.Options, spec SubtaskSpec) (result execution.SubtaskResult, err error) {
	opts.EnsureDefaults()
	x, err := execution.New(opts, spec.Task)
	if err := errors.Join(opts.Validate(), err); err != nil {
		return execution.SubtaskResult{}, err
	}
	c := &comparison{Execution: x}
	if err := c.take(spec.Subtask); err != nil {
		return execution.SubtaskResult{}, err
	}
	if c.snap, err = opts.Store.Snapshot(ctx, spec.TS); err != nil {
		return execution.SubtaskResult{}, execution.Ended(ctx, fmt.Errorf("backfill: compare: %w", err))
	}
	defer func() { err = errs.Combine(err, c.snap.Close()) }()
	c.Progress.Begin(0, 0, keyrange.TotalWeight(c.rows))
	var stored *storeSums
	err = c.Execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		if spec.Subtask.Compare.Stored {
			stored = c.newStoreSums()
			return stored.addAll(ctx, c.entries)
		}
		return c.read(ctx, true, c.sums.accumulator)
	})
	if err != nil {
		return execution.SubtaskResult{}, fmt.Errorf("backfill: compare: %w", err)
	}
	if stored != nil {
		return execution.SubtaskResult{
			Rows: c.scanned.Load(), Totals: stored.given,
			Compared: &execution.CompareResult{Keys: c.keys.Load(), Stored: stored.stored, Records: stored.records},
		}, nil
	}
	compared := &execution.CompareResult{Keys: c.keys.Load(), Sums: c.sums.encode()}
	for k := range spec.Indexes {
		compared.Entries = append(compared.Entries, c.sums.entries(k))
	}
	return execution.SubtaskResult{Rows: c.scanned.Load(), Compared: compared}, nil
}

// take sets what is to be read to that of a subtask.
func (c *comparison) take(p execution.Subtask) error {
	switch {
	case p.Compares() && p.Compare.Stored && c.StoreSums():
	case p.Compares() && !p.Compare.Stored && p.Compare.Buckets >= 2 && bits.OnesCount(uint(p.Compare.Buckets)) == 1:
		c.sums = sumsOf(len(c.Task.Indexes), uint64(p.Compare.Buckets))
	default:
		return fmt.Errorf("backfill: compare: not a part of a comparison for job %d", c.Task.JobID)
	}
	c.rows = keyrange.Load(p.Ranges)
	if !execution.InTable(c.Task.Table, c.rows) {
		return fmt.Errorf("backfill: compare: a part of job %d is not of table %s", c.Task.JobID, c.Task.Table.Name.O)
	}
	for _, r := range p.Compare.Counts {
		c.counts = append(c.counts, kv.KeyRange{Start: r.Start, End: r.End})
	}
	for _, r := range p.Compare.Entries {
		if r.Index < 0 || r.Index >= len(c.Task.Indexes) {
			return fmt.Errorf("backfill: compare: a part of job %d has entries of index %d", c.Task.JobID, r.Index)
		}
		c.entries = append(c.entries, keyrange.Indexed{KeyRange: kv.KeyRange{Start: r.Start, End: r.End}, Index: r.Index})
	}
	return nil
}
