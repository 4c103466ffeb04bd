package event_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/event"
	"fastddl/internal/invariants"
)

func TestBusHandsEventsToAllListeners(t *testing.T) {
	var bus event.Bus
	var one, two []event.Event
	cancel := bus.Subscribe(func(e event.Event) { one = append(one, e) })
	bus.Subscribe(func(e event.Event) { two = append(two, e) })
	first, second := event.StageChanged{Job: event.Job{ID: 1}, Stage: "scan"}, event.RangeDone{Job: event.Job{ID: 2}, Rows: 3}
	bus.Emit(first)
	cancel()
	bus.Emit(second)
	require.Equal(t, []event.Event{first}, one)
	require.Equal(t, []event.Event{first, second}, two)
	require.EqualValues(t, 2, two[1].JobID())

	var none *event.Bus
	none.Emit(first)
}

// TestPanicInAListenerIsContained: the build goes on, and other listeners get the event.
func TestPanicInAListenerIsContained(t *testing.T) {
	var bus event.Bus
	heard := 0
	for range 4 {
		bus.Subscribe(func(event.Event) { heard++ })
		bus.Subscribe(func(event.Event) { panic("a listener") })
	}
	require.NotPanics(t, func() { bus.Emit(event.RangeDone{Job: event.Job{ID: 1}}) })
	require.Equal(t, 4, heard)
	bus.Subscribe(func(event.Event) { panic(invariants.Violation("an assertion")) })
	require.Panics(t, func() { bus.Emit(event.RangeDone{}) })
}

func TestBusIsConcurrent(t *testing.T) {
	var bus event.Bus
	var seen atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				cancel := bus.Subscribe(func(event.Event) { seen.Add(1) })
				bus.Emit(event.RangeDone{})
				cancel()
			}
		})
	}
	wg.Wait()
	require.GreaterOrEqual(t, seen.Load(), int64(8*200))
}

func TestJobEndEventSaysWhatTheJobDid(t *testing.T) {
	e := event.JobStateChanged{Job: event.Job{ID: 7}, Schema: "s", Table: "t", From: "running", To: "synced", Rows: 9, Took: time.Second}
	require.Equal(t, "job 7 on s.t running -> synced after 1s and 9 rows", e.String())
	e.To, e.Took = "paused", 0
	require.Equal(t, "job 7 on s.t running -> paused", e.String())
}

// An event is one line, and does not repeat a statement of any length.
func TestIdleBlockerIsOneShortLine(t *testing.T) {
	e := event.IdleBlockerEnded{Job: event.Job{ID: 7}, Schema: "s", Table: "t", ConnID: 5, SQL: strings.Repeat("x\n", 10_000)}
	require.NotContains(t, e.String(), "\n")
	require.Less(t, len(e.String()), 1000)
	require.Contains(t, e.String(), "job 7 ended connection 5")
}

// An import's end says what it has imported, or why nothing.
func TestImportEventsSayWhatWasImported(t *testing.T) {
	began := event.ImportBegan{Job: event.Job{ID: 7}, ImportID: 2, Schema: "s", Table: "t"}
	require.Equal(t, "job 7 imports into s.t, as import job 2", began.String())
	began.ImportID, began.Step = 0, "loading"
	require.Equal(t, "job 7 imports into s.t, and goes on at loading", began.String())
	ended := event.ImportEnded{Job: event.Job{ID: 7}, Schema: "s", Table: "t", Rows: 9, Took: time.Second}
	require.Equal(t, "job 7 into s.t has imported 9 rows in 1s", ended.String())
	ended.Err = errors.New("a bad row")
	require.Equal(t, "job 7 into s.t has ended without a row after 1s: a bad row", ended.String())
}
