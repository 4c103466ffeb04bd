package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/flow"
)

// A view adds up costs and waits over executions and processes, and what other nodes have spent once.
func TestViewAddsUpCosts(t *testing.T) {
	v := new(View)
	v.Resume(job.History{Costs: job.Costs{ReadBytes: 1000}, LastError: "lost"}, nil)
	v.OnEvent(event.StageChanged{Stage: job.StageScan})
	v.OnEvent(event.Progress{Stage: job.StageScan, RowsDone: 10, RowsTotal: 20, BytesRead: 100, BytesSorted: 40, Workers: 1})
	v.OnEvent(event.Progress{Stage: job.StageScan, RowsDone: 12, RowsTotal: 20, BytesRead: 120, BytesSorted: 48, Workers: 1})
	v.OnEvent(event.Progress{Stage: job.StageScan, RowsDone: 6, RowsBefore: 5, RowsTotal: 20, BytesRead: 10, BytesSorted: 4, Workers: 1}) // begun again
	v.OnEvent(event.Ingested{Bytes: 30})
	v.OnEvent(event.Throttled{Reason: "max_write_speed", For: time.Second})
	v.OnEvent(event.Spent{Costs: job.Costs{StoreRequests: 3}})
	h := v.History(time.Now())
	require.Equal(t, job.Costs{ReadBytes: 1130, SortedBytes: 52, WrittenBytes: 30, StoreRequests: 3}, h.Costs)
	require.Equal(t, map[string]float64{"max_write_speed": 1}, h.Held)
	require.Equal(t, "lost", h.LastError)

	// Nodes build subtasks: their results say what they have spent, those of this node included.
	v.OnEvent(event.Progress{Stage: job.StageScan, RowsDone: 6, RowsBefore: 5, RowsTotal: 20, BytesRead: 10, BytesSorted: 4})
	v.OnEvent(event.Ingested{Bytes: 7})
	v.OnEvent(event.Spent{Costs: job.Costs{WrittenBytes: 70}})
	require.EqualValues(t, 100, v.History(time.Now()).Costs.WrittenBytes)
}

// Sessions that a job waits for are kept with the time that it has waited for each, those that were ended as such.
func TestViewKeepsBlockers(t *testing.T) {
	v := new(View)
	now := time.Unix(1000, 0)
	of := func(ids ...uint64) (blockers []Blocker) {
		for _, id := range ids {
			blockers = append(blockers, Blocker{Verdict: job.Verdict{Blocker: job.Blocker{ConnID: id, User: "app"}}})
		}
		return blockers
	}
	v.waits("job 5, which is before it", now)
	now = now.Add(2 * time.Second)
	v.waits("metadata lock, held by 2 transactions", now)
	v.blockers = of(1, 2)
	now = now.Add(3 * time.Second)
	v.waits("metadata lock, held by 1 transaction", now)
	v.blockers = of(2)
	v.OnEvent(event.IdleBlockerEnded{ConnID: 2})
	now = now.Add(time.Second)
	v.waits("", now)
	v.blockers = nil
	now = now.Add(time.Hour)
	v.waits("", now)
	require.Equal(t, []job.Waited{
		{Reason: lockReason, ConnID: 2, User: "app", Seconds: 4, Ended: true},
		{Reason: lockReason, ConnID: 1, User: "app", Seconds: 3},
		{Reason: "an earlier job", Seconds: 2},
	}, v.waited)
}

// The foreground's times are those of the minute before a job has begun, and of all statements since; a later process keeps them.
func TestViewComparesTheForeground(t *testing.T) {
	meter := new(flow.StatementMeter)
	meter.Begin()()
	v := new(View)
	v.Resume(job.History{}, meter)
	h := v.History(time.Now())
	require.Positive(t, h.Foreground.Before)
	require.Zero(t, h.Foreground.During)
	meter.Begin()()
	h = v.History(time.Now())
	require.Positive(t, h.Foreground.During)
	later := new(View)
	h.Stages = []job.StageTime{{Stage: job.StageScan, Seconds: 1}}
	later.Resume(h, new(flow.StatementMeter))
	require.Equal(t, h.Foreground.Before, later.History(time.Now()).Foreground.Before)
	require.Equal(t, h.Foreground.During, later.History(time.Now()).Foreground.During)
}
