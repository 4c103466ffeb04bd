package status

import (
	"maps"
	"slices"
	"strings"
	"time"

	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/kv"
)

// account is what a view adds up for the job's history. The view's mu guards it.
type account struct {
	costs   job.Costs
	stores  kv.Costs       // of earlier processes
	last    event.Progress // the last report
	held    map[string]float64
	waited  []job.Waited
	counted time.Time // up to when waits are in waited; zero while there is none
	points  job.Points

	foreground *flow.StatementMeter
	began      flow.Latencies // when the process has begun with the job
	before     float64        // of History.Foreground
	during     float64        // of earlier processes

	verified   string
	indexBytes int64
}

// lockReason is the kind of wait whose sessions are known.
const lockReason = "metadata lock"

// Resume begins with what the job has done before. The meter is that of the statements of clients; nil measures none.
func (v *View) Resume(h job.History, foreground *flow.StatementMeter) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock.Resume(h.Stages)
	if len(h.Stages) > 0 {
		v.progress.Resume(h.Percent)
	}
	v.costs, v.stores, v.held, v.waited = h.Costs, h.Stores, maps.Clone(h.Held), slices.Clone(h.Waited)
	v.failure, v.verified = h.LastError, h.Verified
	v.foreground, v.began = foreground, foreground.Latencies()
	v.before, v.during = h.Foreground.Before, h.Foreground.During
	if len(h.Stages) == 0 {
		v.before = milliseconds(foreground.LastMinute(time.Now()))
	}
}

// milliseconds is the 99th percentile; 0 if there is none.
func milliseconds(l flow.Latencies) float64 {
	p99, _ := l.P99()
	return float64(p99) / float64(time.Millisecond)
}

// ResumePoints begins with the points of an earlier process, after Resume.
func (v *View) ResumePoints(points []job.Point) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.points.Resume(points, v.history(time.Now()))
}

// SetVerified says how the entries were verified.
func (v *View) SetVerified(how string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.verified = how
}

// SetIndexBytes says how large the new indexes are.
func (v *View) SetIndexBytes(size int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.indexBytes = size
}

// History returns what the job is to keep, up to now.
func (v *View) History(now time.Time) job.History {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.history(now)
}

func (v *View) history(now time.Time) job.History {
	v.countWait(now, v.wait, v.blockers)
	return job.History{
		Stages: v.clock.Stages(now), Percent: v.progress.Percent(), Costs: v.costs, Stores: v.stores.Plus(v.meter.Costs()), Held: maps.Clone(v.held), Waited: slices.Clone(v.waited),
		Foreground: job.Foreground{
			Before: v.before, Now: milliseconds(v.foreground.LastMinute(now)),
			During: max(v.during, milliseconds(v.foreground.Latencies().Since(v.began))),
		},
		LastError: v.failure, Verified: v.verified, IndexBytes: v.indexBytes,
	}
}

// changedPoints returns points of the throughput that are not written yet, or all, and says that they are by written.
func (v *View) changedPoints() (points []job.Point, all bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.points.Changed()
}

func (v *View) pointsWritten() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.points.Written()
}

// endPoints adds the last point of a job that was under way for so long.
func (v *View) endPoints(after time.Duration, h job.History) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.points.End(after, v.clock.Stage(), h)
}

// countRead counts what an execution has read and sorted since its last report.
func (v *View) countRead(e event.Progress) {
	last := v.last
	if e.RowsBefore != last.RowsBefore || e.BytesRead < last.BytesRead || e.BytesSorted < last.BytesSorted {
		last = event.Progress{}
	}
	v.costs.ReadBytes += e.BytesRead - last.BytesRead
	v.costs.SortedBytes += e.BytesSorted - last.BytesSorted
	v.last = e
}

// elsewhere says that nodes build subtasks, whose costs are in their results; the events of those of this node show here.
func (v *View) elsewhere() bool { return v.last.Stage == job.StageScan && v.last.Workers == 0 }

func (v *View) countImported(bytes int64) {
	if !v.elsewhere() {
		v.costs.WrittenBytes += bytes
		v.clock.Imported(bytes)
	}
}

func (v *View) countHeld(e event.Throttled) {
	if v.held == nil {
		v.held = make(map[string]float64)
	}
	v.held[e.Reason] += e.For.Seconds()
	if !v.elsewhere() {
		v.clock.Held(e.For)
		v.progress.Held(e.For, e.Yields)
	}
}

// countWait counts the time since the last call as one of waiting for a reason, or for transactions.
func (v *View) countWait(now time.Time, reason string, blockers []Blocker) {
	if seconds := now.Sub(v.counted).Seconds(); !v.counted.IsZero() && reason != "" && seconds > 0 {
		if len(blockers) == 0 {
			v.waited = job.AddWaited(v.waited, job.Waited{Reason: ReasonKind(reason), Seconds: seconds})
		}
		for _, b := range blockers {
			v.waited = job.AddWaited(v.waited, job.Waited{Reason: lockReason, ConnID: b.ConnID, User: b.User, Seconds: seconds})
		}
	}
	v.counted = now
}

// userOf is the user of a session that the job waits for.
func (v *View) userOf(connID uint64) string {
	for _, b := range v.blockers {
		if b.ConnID == connID {
			return b.User
		}
	}
	return ""
}

// ReasonKind is a reason without what differs from wait to wait: numbers of jobs and connections, texts of errors.
func ReasonKind(reason string) string {
	if strings.HasPrefix(reason, "job ") {
		return "an earlier job"
	}
	kind, _, _ := strings.Cut(reason, ", ")
	kind, detail, _ := strings.Cut(kind, ": ")
	if kind == "yielding to foreground" { // to what, of a few
		kind += ": " + detail
	}
	return strings.ToValidUTF8(kind, "?")
}
