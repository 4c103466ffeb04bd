package backfill

import (
	"context"
	"fmt"

	"fastddl/ingest"
)

// Part is some of a table's rows, to be built by one node, or some of a comparison. It is
// kept with the job while it is worked on.
type Part struct {
	Tasks []checkpointTask `json:"tasks"`
	// Compare is there in a part of a comparison.
	Compare *comparePart `json:"compare,omitempty"`
}

// Compares says that the part is for ComparePart.
func (p *Part) Compares() bool { return p.Compare != nil }

// comparePart is what there is of a part of a comparison beside rows: entries to be summed
// up, in a number of buckets for each index, and records to be counted by their keys.
type comparePart struct {
	Buckets int               `json:"buckets"`
	Entries []checkpointRange `json:"entries"`
	Counts  []checkpointRange `json:"counts"`
}

// PartResult is what the build of a part has come to.
type PartResult struct {
	// Rows were scanned.
	Rows int64 `json:"rows"`
	// Totals are those of the entries that are durable, by position in the task's
	// indexes.
	Totals []ingest.Totals `json:"totals,omitempty"`
	// Compared is what a part of a comparison has come to.
	Compared *comparedPart `json:"compared,omitempty"`
}

// comparedPart has the records that were counted, the entries of each index, and the sums
// as sums.encode makes them.
type comparedPart struct {
	Keys    int64   `json:"keys"`
	Entries []int64 `json:"entries"`
	Sums    []byte  `json:"sums"`
}

// PartSpec says which part is to be built, or compared.
type PartSpec struct {
	// Task names the entries of the whole table.
	Task
	Part Part
	// Checkpoint is what was last given to SaveCheckpoint for this part, or nil.
	Checkpoint []byte
}

// RunPart makes the entries that the rows of a part have at spec.TS durable at that
// version, starting from the checkpoint if there is one. It does not verify them: who
// has cut the parts does that for all of them. It fails and obeys ctx as Run does; two
// parts that have rows with equal values in a unique index do not notice.
func RunPart(ctx context.Context, opts Options, spec PartSpec) (PartResult, error) {
	b, err := newBuild(opts, Spec{Task: spec.Task, Checkpoint: spec.Checkpoint})
	if err != nil {
		return PartResult{}, err
	}
	b.isPart = true
	cp, err := decodeCheckpoint(b.checkpointed, &b.task)
	if err != nil {
		return PartResult{}, err
	}
	if cp == nil {
		cp = b.newCheckpoint(decodeTasks(spec.Part.Tasks))
		if !cp.inTable(spec.Table) {
			return PartResult{}, fmt.Errorf("backfill: a part of job %d is not of table %s", spec.JobID, spec.Table.Name.O)
		}
	}
	if err := b.execute(ctx, b.shareOptions(), func(ctx context.Context) error { return b.ingest(ctx, cp) }); err != nil {
		return PartResult{}, err
	}
	return PartResult{Rows: cp.Rows, Totals: cp.wanted()}, nil
}

// cutParts cuts tasks, which are in key order, into at most n parts of the same weight, as
// far as the keys allow it: parts that differ by a task keep all nodes but one waiting for
// as long as that takes.
func cutParts(tasks []task, n int) []Part {
	each := totalWeight(tasks) / float64(max(1, n))
	var parts []Part
	var current Part
	weight := 0.0 // of all that is in parts
	add := func(t task) {
		current.Tasks = append(current.Tasks, checkpointTask{Start: t.Start, End: t.End, Weight: t.weight})
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
