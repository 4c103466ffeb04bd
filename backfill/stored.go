package backfill

import "fastddl/kv"

// checkpointTask is a range as it is kept with a job.
type checkpointTask struct {
	Start  []byte  `json:"start"`
	End    []byte  `json:"end,omitempty"`
	Weight float64 `json:"weight"`
}

// checkpointRange is a range of an index as it is kept with a job.
type checkpointRange struct {
	// Index is a position in Indexes.
	Index int    `json:"index"`
	Start []byte `json:"start"`
	End   []byte `json:"end,omitempty"`
}

func decodeTasks(stored []checkpointTask) []task {
	tasks := make([]task, len(stored))
	for i, t := range stored {
		tasks[i] = task{kv.KeyRange{Start: t.Start, End: t.End}, t.Weight}
	}
	return tasks
}

// encodeTask is the reverse of decodeTasks for one.
func encodeTask(t task) checkpointTask {
	return checkpointTask{Start: t.Start, End: t.End, Weight: t.weight}
}
