package execution

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
)

// Subtask is some of a table's rows, to be built by one node, or some of a comparison. It is
// kept with the job while it is worked on.
type Subtask struct {
	Ranges []keyrange.StoredWeighted `json:"tasks"`
	// Sample are ranges all over the table: a node that builds the subtask may build others with it.
	Sample []keyrange.StoredIndexed `json:"sample,omitempty"`
	// Compare is set in a subtask of a comparison.
	Compare *CompareSpec `json:"compare,omitempty"`
}

// Compares says that the subtask is one of a comparison.
func (p *Subtask) Compares() bool { return p.Compare != nil }

// CompareSpec says what a subtask of a comparison reads beside rows: entries to be summed
// up, in a number of buckets for each index, or by the store if Stored says so, and records to be counted by
// their keys.
type CompareSpec struct {
	Buckets int                      `json:"buckets,omitempty"`
	Stored  bool                     `json:"stored,omitempty"`
	Entries []keyrange.StoredIndexed `json:"entries"`
	Counts  []keyrange.StoredIndexed `json:"counts"`
}

// Unproven is SubtaskResult.Visited of a subtask that was found wrong before. Since no more rows are visited than there are, the
// sum of a build that has such a subtask is not its number of rows, even if the subtask has none.
const Unproven = -1

// SubtaskResult is the result of building or comparing one subtask.
type SubtaskResult struct {
	// Rows were scanned.
	Rows int64 `json:"rows"`
	// Totals are those of the entries that are durable, by position in the task's
	// indexes; those of what the rows give if the store has summed up a subtask of a comparison.
	Totals []ingest.Totals `json:"totals,omitempty"`
	// Intervals are those of the totals, as far as they are known; Visited is how many of the rows the store has counted
	// in its scans, or Unproven. A node of an earlier version leaves both out.
	Intervals []Intervals `json:"intervals,omitempty"`
	Visited   int64       `json:"visited,omitempty"`
	// Costs are what its node has taken of the store for this one and those that it has built with it; a node of an
	// earlier version leaves them out.
	Costs event.Costs `json:"costs,omitzero"`
	// Compared is the result of a subtask of a comparison.
	Compared *CompareResult `json:"compared,omitempty"`
}

// CompareResult has the records that were counted, the entries of each index, and the sums
// as package compare encodes them; or what the store has of each index, and the records it has met.
type CompareResult struct {
	Keys    int64           `json:"keys"`
	Entries []int64         `json:"entries,omitempty"`
	Sums    []byte          `json:"sums,omitempty"`
	Stored  []ingest.Totals `json:"stored,omitempty"`
	Records []int64         `json:"records,omitempty"`
}

// WithSample returns subtasks with ranges that a node which builds them samples.
func WithSample(subtasks []Subtask, ranges []kv.KeyRange) []Subtask {
	sample := make([]keyrange.StoredIndexed, len(ranges))
	for i, r := range ranges {
		sample[i] = keyrange.StoredIndexed{Start: r.Start, End: r.End}
	}
	for i := range subtasks {
		subtasks[i].Sample = sample
	}
	return subtasks
}

// MaxSubtaskRanges is about how many ranges of each kind a subtask has at most: it is kept in
// a row of a table, and must fit into one.
const MaxSubtaskRanges = 1000

// CutSubtasks cuts tasks, which are in key order, into at most n subtasks of the same weight, as
// far as the keys allow it: subtasks that differ by a range keep all nodes but one waiting for
// as long as that takes.
func CutSubtasks(tasks []keyrange.Weighted, n int) []Subtask {
	tasks = keyrange.FewerWeighted(tasks, n*MaxSubtaskRanges)
	each := keyrange.TotalWeight(tasks) / float64(max(1, n))
	var parts []Subtask
	var current Subtask
	weight := 0.0 // of all that is in subtasks
	add := func(t keyrange.Weighted) {
		current.Ranges = append(current.Ranges, keyrange.Store(t))
		weight += t.Weight
	}
	end := func() {
		if len(current.Ranges) > 0 {
			parts = append(parts, current)
		}
		current = Subtask{}
	}
	for _, rest := range tasks {
		for len(parts) < n-1 {
			due := each*float64(len(parts)+1) - weight
			if rest.Weight <= due+each*tolerance {
				break
			}
			head, tail, ok := keyrange.CutAt(rest, due/rest.Weight)
			if ok {
				add(head)
				rest = tail
			} else if len(current.Ranges) == 0 {
				break // there is no smaller subtask
			}
			end()
		}
		add(rest)
		if len(parts) < n-1 && weight >= each*(float64(len(parts)+1)-tolerance) {
			end()
		}
	}
	end()
	return parts
}

// tolerance is how much a subtask may differ from the others, as a share of one, so that ranges that
// fit are not cut.
const tolerance = 1.0 / 64

// InTable says whether tasks are of rows of t.
func InTable(t *model.TableInfo, tasks []keyrange.Weighted) bool {
	ids := encode.PhysicalIDs(t)
	return !slices.ContainsFunc(tasks, func(t keyrange.Weighted) bool {
		_, found := slices.BinarySearch(ids, t.PhysicalID())
		return !found
	})
}
