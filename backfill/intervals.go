package backfill

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/ingest"
	"fastddl/kv"
)

const (
	// maxIntervals is how many intervals an index has at most whose entries are summed up, maxAllIntervals how many all
	// indexes of a job have: their totals are kept in checkpoints and in results of subtasks.
	maxIntervals, maxAllIntervals = 256, 1024
)

// intervalsOf returns how many intervals each of some indexes has at most.
func intervalsOf(indexes []*model.IndexInfo) int {
	return max(1, min(maxIntervals, maxAllIntervals/len(indexes)))
}

// share makes t, which may have all intervals of an index, the target of the i-th of several physical tables. If there are
// more of them than intervals, several that adjoin have one.
func (t *target) share(indexID int64, physicals []int64, i int) {
	n, most := len(physicals), t.most
	interval := func(i int) int { return i * min(n, most) / n }
	first, end := i, i+1
	for first > 0 && interval(first-1) == interval(i) {
		first--
	}
	for end < n && interval(end) == interval(i) {
		end++
	}
	if first > 0 {
		t.whole.Start = encode.IndexPrefix(physicals[first], indexID)
	}
	if end < n {
		t.whole.End = encode.IndexPrefix(physicals[end], indexID)
	}
	t.most = max(1, most/n)
}

// cut chooses the target's cuts: those that known has, so that intervals of several runs and nodes can be added, or
// some by a sample of its keys.
func (t *target) cut(known execution.Intervals, sample [][]byte) {
	t.cuts = nil
	for _, key := range known.Within(kv.PrefixRange(t.prefix)) {
		t.cuts = append(t.cuts, key[len(t.prefix):])
	}
	if len(t.cuts) == 0 {
		t.cuts = execution.CutKeys(sample, t.most)
	}
}

// intervals returns the intervals of the target's index with the totals of what was written to each of the target.
func (t *target) intervals(written []ingest.Totals) (v execution.Intervals) {
	if t.whole.Start != nil {
		v.Cuts, v.Sums = append(v.Cuts, t.whole.Start), append(v.Sums, ingest.Totals{})
	}
	for _, cut := range t.cuts {
		v.Cuts = append(v.Cuts, slices.Concat(t.prefix, cut))
	}
	v.Sums = append(v.Sums, written...)
	if t.whole.End != nil {
		v.Cuts, v.Sums = append(v.Cuts, t.whole.End), append(v.Sums, ingest.Totals{})
	}
	return v
}
