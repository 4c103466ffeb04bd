package job

import "strings"

// Object is something a job has for itself while it is in the queue: a database
// with everything in it, or a table, by ID if it exists and by name.
type Object struct {
	DB string `json:"db"`
	// Table is empty for the whole database.
	Table   string `json:"table,omitempty"`
	TableID int64  `json:"table_id,omitempty"`
}

func (o Object) conflicts(p Object) bool {
	if o.TableID != 0 && o.TableID == p.TableID {
		return true
	}
	if !strings.EqualFold(o.DB, p.DB) {
		return false
	}
	return o.Table == "" || p.Table == "" || strings.EqualFold(o.Table, p.Table)
}

func (j *Job) conflicts(k *Job) bool {
	for _, o := range j.Objects {
		for _, p := range k.Objects {
			if o.conflicts(p) {
				return true
			}
		}
	}
	return false
}

// Runnable returns those of the jobs, which are all that have not ended, in
// order of ID, that may run now: no earlier job has an object of theirs. A job
// that was cancelled before it began needs nothing and may run at once.
func Runnable(queue []*Job) []*Job {
	var out []*Job
	for i, j := range queue {
		if Ahead(queue, i) == nil {
			out = append(out, j)
		}
	}
	return out
}

// Ahead returns the job that the i-th of the queue waits for, the first of
// several; nil if it may run now.
func Ahead(queue []*Job, i int) *Job {
	j := queue[i]
	if j.Request == RequestCancel && j.Step == StepStart {
		return nil
	}
	for _, earlier := range queue[:i] {
		if j.conflicts(earlier) {
			return earlier
		}
	}
	return nil
}
