package dist

import (
	"maps"
	"time"

	"fastddl/internal/backoff"
)

const (
	// tolerated is how many attempts of a node may end in failure, one after the other,
	// before it is taken to be the node that is at fault, and not a subtask.
	tolerated = 2
	// The node leaves the job to others for minRest then, twice as long after each further
	// failure, up to maxRest: what ails it may be over, and all failures together count
	// against the job.
	minRest = time.Second
	maxRest = time.Minute
)

// Trouble remembers what this node has failed with of late, so that others get the subtasks
// that it cannot build, and one node does not use up the failures that a job may have. The
// zero value is ready for use.
type Trouble struct {
	subtasks map[subtaskKey]time.Time // by subtask: until when it is left to others
	jobs     map[int64]jobTrouble
}

type subtaskKey struct{ job, subtask int64 }

type jobTrouble struct {
	failures int // since the last success
	until    time.Time
}

// Failed notes that an attempt at a subtask has failed now; the subtask is avoided for a while.
func (t *Trouble) Failed(now time.Time, jobID, subtask int64, avoid time.Duration) {
	if t.subtasks == nil {
		t.subtasks, t.jobs = make(map[subtaskKey]time.Time), make(map[int64]jobTrouble)
	}
	maps.DeleteFunc(t.subtasks, func(_ subtaskKey, until time.Time) bool { return !now.Before(until) })
	maps.DeleteFunc(t.jobs, func(_ int64, j jobTrouble) bool { return now.Sub(j.until) > 10*maxRest })
	t.subtasks[subtaskKey{jobID, subtask}] = now.Add(avoid)
	j := t.jobs[jobID]
	j.until = now
	if j.failures++; j.failures > tolerated {
		j.until = now.Add(backoff.Exponential(j.failures-tolerated, minRest, maxRest))
	}
	t.jobs[jobID] = j
}

// Succeeded notes that this node has built subtasks of a job.
func (t *Trouble) Succeeded(jobID int64) {
	delete(t.jobs, jobID)
}

// Avoids says whether this node leaves a subtask to others at the moment.
func (t *Trouble) Avoids(now time.Time, jobID, subtask int64) bool {
	return now.Before(t.subtasks[subtaskKey{jobID, subtask}]) || now.Before(t.jobs[jobID].until)
}
