package backfill

import (
	"bytes"
	"slices"
	"sync"

	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// tiling knows which ranges a run was to scan and which its workers have scanned: each key that was due is scanned
// once, or left.
type tiling struct {
	table string

	mu        sync.Mutex
	due, done keyrange.Set
}

// begin adds ranges that are to be scanned.
func (t *tiling) begin(tasks []keyrange.Weighted) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, task := range tasks {
		if !t.due.Add(task.KeyRange) {
			return &execution.ScannedRangesError{Table: t.table}
		}
	}
	return nil
}

// scanned adds a range that a worker has scanned.
func (t *tiling) scanned(r kv.KeyRange) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done.Add(r) {
		return &execution.ScannedRangesError{Table: t.table}
	}
	return nil
}

// check fails unless what was scanned and what is left, in key order, are together what was to be scanned.
func (t *tiling) check(left []keyrange.Weighted) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	open, once := keyrange.Without(t.due, t.done)
	undue, _ := keyrange.Without(t.done, t.due)
	equal := func(a kv.KeyRange, b keyrange.Weighted) bool {
		return bytes.Equal(a.Start, b.Start) && bytes.Equal(a.End, b.End)
	}
	if !once || len(undue) > 0 || !slices.EqualFunc(open, keyrange.Merge(nonEmpty(left)), equal) {
		return &execution.ScannedRangesError{Table: t.table}
	}
	return nil
}

// nonEmpty leaves out tasks that were split until nothing was left.
func nonEmpty(tasks []keyrange.Weighted) []keyrange.Weighted {
	return slices.DeleteFunc(slices.Clone(tasks), func(t keyrange.Weighted) bool { return t.Empty() })
}
