package keyrange

import "fastddl/kv"

// StoredWeighted is a range as it is kept with a job.
type StoredWeighted struct {
	Start  []byte  `json:"start"`
	End    []byte  `json:"end,omitempty"`
	Weight float64 `json:"weight"`
}

// StoredIndexed is a range of an index as it is kept with a job.
type StoredIndexed struct {
	// Index is a position in Indexes.
	Index int    `json:"index"`
	Start []byte `json:"start"`
	End   []byte `json:"end,omitempty"`
}

// Load returns ranges that were kept with a job.
func Load(stored []StoredWeighted) []Weighted {
	tasks := make([]Weighted, len(stored))
	for i, t := range stored {
		tasks[i] = Weighted{kv.KeyRange{Start: t.Start, End: t.End}, t.Weight}
	}
	return tasks
}

// Store is the reverse of Load for one.
func Store(t Weighted) StoredWeighted {
	return StoredWeighted{Start: t.Start, End: t.End, Weight: t.Weight}
}
