package event

import "fmt"

// Costs are what a job has taken of the store, repetitions included.
type Costs struct {
	// ReadBytes is the stored size of the rows that were read, by the store's estimate. SortedBytes are the keys and
	// values of their entries, WrittenBytes the files that were imported.
	ReadBytes    int64 `json:"read_bytes,omitempty"`
	SortedBytes  int64 `json:"sorted_bytes,omitempty"`
	WrittenBytes int64 `json:"written_bytes,omitempty"`
	// StoreRequests were sent to stores, which have taken StoreCPUSeconds for them; 0 if that is not known.
	StoreRequests   int64   `json:"store_requests,omitempty"`
	StoreCPUSeconds float64 `json:"store_cpu_seconds,omitempty"`
}

// Add adds o to c.
func (c *Costs) Add(o Costs) {
	c.ReadBytes += o.ReadBytes
	c.SortedBytes += o.SortedBytes
	c.WrittenBytes += o.WrittenBytes
	c.StoreRequests += o.StoreRequests
	c.StoreCPUSeconds += o.StoreCPUSeconds
}

// Spent: the job has taken so much more of the store, which no other event says.
type Spent struct {
	Job
	Costs
}

func (e Spent) String() string {
	return fmt.Sprintf("job %d has read %d, sorted %d and written %d bytes with %d requests and %.3f s of stores",
		e.ID, e.ReadBytes, e.SortedBytes, e.WrittenBytes, e.StoreRequests, e.StoreCPUSeconds)
}
