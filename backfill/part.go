package backfill

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ingest"
	"fastddl/kv"
)

// Part is some of a table's rows, to be built by one node, or some of a comparison. It is
// kept with the job while it is worked on.
type Part struct {
	Tasks []checkpointTask `json:"tasks"`
	// Sample are ranges all over the table: who builds the part may build others with it.
	Sample []checkpointRange `json:"sample,omitempty"`
	// Compare is there in a part of a comparison.
	Compare *comparePart `json:"compare,omitempty"`
}

// Compares says that the part is for ComparePart.
func (p *Part) Compares() bool { return p.Compare != nil }

// comparePart is what there is of a part of a comparison beside rows: entries to be summed
// up, in a number of buckets for each index, or by the store if Stored says so, and records to be counted by
// their keys.
type comparePart struct {
	Buckets int               `json:"buckets,omitempty"`
	Stored  bool              `json:"stored,omitempty"`
	Entries []checkpointRange `json:"entries"`
	Counts  []checkpointRange `json:"counts"`
}

// PartResult is what the build of a part has come to.
type PartResult struct {
	// Rows were scanned.
	Rows int64 `json:"rows"`
	// Totals are those of the entries that are durable, by position in the task's
	// indexes; those of what the rows give if the store has summed up a part of a comparison.
	Totals []ingest.Totals `json:"totals,omitempty"`
	// Compared is what a part of a comparison has come to.
	Compared *comparedPart `json:"compared,omitempty"`
}

// comparedPart has the records that were counted, the entries of each index, and the sums
// as sums.encode makes them; or what the store has of each index, and the records it has met.
type comparedPart struct {
	Keys    int64           `json:"keys"`
	Entries []int64         `json:"entries,omitempty"`
	Sums    []byte          `json:"sums,omitempty"`
	Stored  []ingest.Totals `json:"stored,omitempty"`
	Records []int64         `json:"records,omitempty"`
}

// sampling returns parts with ranges that whoever builds them is to sample.
func sampling(parts []Part, ranges []kv.KeyRange) []Part {
	sample := make([]checkpointRange, len(ranges))
	for i, r := range ranges {
		sample[i] = checkpointRange{Start: r.Start, End: r.End}
	}
	for i := range parts {
		parts[i].Sample = sample
	}
	return parts
}

// maxPartRanges is about how many ranges of each kind a part has at the most: it is kept in a
// row of a table, which must not become too large for one.
const maxPartRanges = 1000

// cutParts cuts tasks, which are in key order, into at most n parts of the same weight, as
// far as the keys allow it: parts that differ by a task keep all nodes but one waiting for
// as long as that takes.
func cutParts(tasks []task, n int) []Part {
	tasks = fewerTasks(tasks, n*maxPartRanges)
	each := totalWeight(tasks) / float64(max(1, n))
	var parts []Part
	var current Part
	weight := 0.0 // of all that is in parts
	add := func(t task) {
		current.Tasks = append(current.Tasks, encodeTask(t))
		weight += t.weight
	}
	end := func() {
		if len(current.Tasks) > 0 {
			parts = append(parts, current)
		}
		current = Part{}
	}
	for _, rest := range tasks {
		for len(parts) < n-1 {
			due := each*float64(len(parts)+1) - weight
			if rest.weight <= due+each*partTolerance {
				break
			}
			head, tail, ok := cutTask(rest, due/rest.weight)
			if ok {
				add(head)
				rest = tail
			} else if len(current.Tasks) == 0 {
				break // there is no smaller part
			}
			end()
		}
		add(rest)
		if len(parts) < n-1 && weight >= each*(float64(len(parts)+1)-partTolerance) {
			end()
		}
	}
	end()
	return parts
}

// partTolerance is how much a part may differ from the others, in parts, so that tasks that
// fit are not cut.
const partTolerance = 1.0 / 64

// tasksIn says whether tasks are of rows of t.
func tasksIn(t *model.TableInfo, tasks []task) bool {
	ids := physicalIDs(t)
	return !slices.ContainsFunc(tasks, func(t task) bool {
		_, found := slices.BinarySearch(ids, t.physicalID())
		return !found
	})
}
