package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/event"
	"fastddl/ingest"
)

// TestLongWaitsAreToldOnceAndAtTheirEnd: a wait lasts as long as there is a reason, whichever.
func TestLongWaitsAreToldOnceAndAtTheirEnd(t *testing.T) {
	var told []string
	w := waitWatch{emit: func(e event.Event) { told = append(told, e.String()) }}
	v := &View{}
	start := time.Unix(1000, 0)
	observe := func(at time.Duration, reason string) {
		now := start.Add(at)
		w.observe(now, JobInfo{ID: 7, DB: "s", Table: "t", WaitReason: reason, WaitSince: v.WaitSince(reason, now), Building: &Building{}})
	}
	observe(0, "")
	observe(time.Second, "metadata lock, held by 1 transaction: connection 5")
	observe(6*time.Second-1, "metadata lock, held by 1 transaction: connection 5")
	require.Empty(t, told, "most waits are short")
	observe(6*time.Second, "metadata lock, held by 2 transactions: connections 5, 6")
	observe(9*time.Second, "metadata lock, held by 1 transaction: connection 6")
	require.Equal(t, []string{"job 7 on s.t has waited 5s for: metadata lock, held by 2 transactions: connections 5, 6"}, told)
	observe(12*time.Second, "")
	observe(13*time.Second, "")
	require.Equal(t, "job 7 on s.t waits no more, after 11s, for: metadata lock, held by 2 transactions: connections 5, 6", told[1])
	require.Len(t, told, 2)

	observe(20*time.Second, WaitPaused)
	observe(99*time.Second, WaitPaused)
	require.Len(t, told, 2, "who pauses a job knows")
	observe(100*time.Second, "")
	observe(101*time.Second, "disk space")
	observe(107*time.Second, "disk space")
	require.Len(t, told, 3)
	w.observe(start.Add(108*time.Second), JobInfo{}) // the job ends
	require.Len(t, told, 4)
	require.Contains(t, told[3], "waits no more, after 7s")
}

func TestAWaitForSharedResourcesSaysSo(t *testing.T) {
	var told []event.Event
	w := waitWatch{emit: func(e event.Event) { told = append(told, e) }}
	since := time.Unix(1000, 0)
	info := JobInfo{WaitReason: "yielding", WaitSince: since, Building: &Building{Allocation: ingest.Allocation{Wait: "yielding"}}}
	w.observe(since.Add(longWait), info)
	require.True(t, told[0].(event.Waiting).ForResources)
}

// TestAWaitBeginsWhenTheJobSaysSo, and not when somebody looks.
func TestAWaitBeginsWhenTheJobSaysSo(t *testing.T) {
	v := &View{}
	before := time.Now()
	v.SetWait("job 3, which is before it")
	after := time.Now()
	since := v.WaitSince("job 3, which is before it", after.Add(time.Hour))
	require.False(t, since.Before(before) || since.After(after))
	v.setBlockers("metadata lock", nil)
	require.Equal(t, since, v.WaitSince("metadata lock", after))
	v.SetWait("")
	require.Zero(t, v.WaitSince("", after))
}
