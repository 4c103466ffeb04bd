package job

import (
	"cmp"
	"slices"

	"fastddl/event"
	"fastddl/kv"
)

// History is what a job keeps of how it went, over restarts and owners. A node that does not know it drops it. What was done
// after the last report of a process that has died is missing.
type History struct {
	// Stages are in the order in which the job has entered them first.
	Stages []StageTime `json:"stages,omitempty"`
	// Percent is how much of the job was done, as it was shown.
	Percent float64 `json:"percent,omitempty"`
	// Costs are what was read, sorted and written.
	Costs Costs `json:"costs,omitzero"`
	// Stores is what the job has cost the stores of a cluster.
	Stores kv.Costs `json:"stores,omitzero"`
	// Held are the seconds of workers in which they have waited, by what they waited for: a write limit, or the
	// foreground.
	Held map[string]float64 `json:"held,omitempty"`
	// Waited is what the job has waited for, the longest first, at most maxWaited.
	Waited []Waited `json:"waited,omitempty"`
	// Foreground are the statements of clients of the job's node.
	Foreground Foreground `json:"foreground,omitzero"`
	// LastError is what was tried again last, without values of rows.
	LastError string `json:"last_error,omitempty"`
	// Verified is how the entries were verified: one of the constants below; empty before.
	Verified string `json:"verified,omitempty"`
	// IndexBytes is the size of the new indexes in the store when they became public; 0 if it is not known.
	IndexBytes int64 `json:"index_bytes,omitempty"`
}

// The ways in which a build was verified.
const (
	// VerifiedSample and VerifiedFull: a sample of the entries, or all, were read back.
	VerifiedSample, VerifiedFull = "sample", "full"
	// VerifiedCompare: the comparison before the publication has verified them.
	VerifiedCompare = "compare"
	// Rebuilt follows one of them if a first build was found wrong.
	Rebuilt = ", rebuilt"
)

// Costs are what a job has taken of stores.
type Costs = event.Costs

// Foreground is the 99th percentile of statements of clients, in milliseconds; 0 where there were none.
type Foreground struct {
	// Before is of the minute before the job has begun, Now of the last minute, and During of all statements since it has
	// begun, the greatest of several processes.
	Before float64 `json:"before_ms,omitempty"`
	Now    float64 `json:"now_ms,omitempty"`
	During float64 `json:"during_ms,omitempty"`
}

// Waited is something that a job has waited for.
type Waited struct {
	// Reason is the kind of wait. ConnID and User are those of a session whose transaction the job has waited for, zero
	// otherwise; Ended says that it was ended for that.
	Reason string `json:"reason"`
	ConnID uint64 `json:"conn_id,omitempty"`
	User   string `json:"user,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	// Seconds is how long the job has waited for it.
	Seconds float64 `json:"seconds"`
}

// maxWaited bounds what is kept of what a job has waited for.
const maxWaited = 32

// AddWaited returns waits with a further one: added to that of the same reason and session, or new.
func AddWaited(waits []Waited, w Waited) []Waited {
	i := slices.IndexFunc(waits, func(o Waited) bool { return o.Reason == w.Reason && o.ConnID == w.ConnID && o.User == w.User })
	if i >= 0 {
		waits[i].Seconds += w.Seconds
		waits[i].Ended = waits[i].Ended || w.Ended
	} else {
		waits = append(waits, w)
	}
	slices.SortStableFunc(waits, func(a, b Waited) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return waits[:min(len(waits), maxWaited)]
}

// Seconds is how long the job is under way by its stages.
func (h *History) Seconds() (sum float64) {
	for _, s := range h.Stages {
		sum += s.Seconds
	}
	return sum
}

// Client is the client that executed a job's statement.
type Client struct {
	// User is as user@host, ConnID its connection, and Program the name that the client gives itself.
	User    string `json:"user,omitempty"`
	ConnID  uint64 `json:"conn_id,omitempty"`
	Program string `json:"program,omitempty"`
}
