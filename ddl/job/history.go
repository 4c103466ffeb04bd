package job

// History is what a job keeps of how it went, over restarts and owners. A node that does not know it drops it. What was done
// after the last report of a process that has died is missing.
type History struct {
	// Stages are in the order in which the job has entered them first.
	Stages []StageTime `json:"stages,omitempty"`
	// Percent is how much of the job was done, as it was shown.
	Percent float64 `json:"percent,omitempty"`
}

// Seconds is how long the job is under way by its stages.
func (h *History) Seconds() (sum float64) {
	for _, s := range h.Stages {
		sum += s.Seconds
	}
	return sum
}
