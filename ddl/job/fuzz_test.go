package job

import (
	"encoding/json"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"
)

// FuzzRecords: any record that was stored is shown, and is taken to an end by the
// machine.
func FuzzRecords(f *testing.F) {
	for _, r := range []*Record{
		{ID: 1, Type: model.ActionAddIndex, State: model.JobStateQueueing, DB: "d", Table: "t"},
		{ID: 2, Step: stepQuiet, State: model.JobStateRunning, SchemaVersion: 7, SnapshotTS: 9, Compare: true},
		{ID: 6, Step: StepSnapshot, State: model.JobStateRunning, SchemaVersion: 7, SnapshotTS: 9, Compare: true},
		{ID: 3, Step: StepDrained, State: model.JobStateRollingback, SchemaVersion: 7},
		{ID: 4, Step: StepWriteOnly, State: model.JobStatePaused, Request: RequestPause, SchemaVersion: 1},
		{ID: 5, Step: StepFinished, State: model.JobStateSynced},
	} {
		data, err := json.Marshal(r)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"step":"no such step","state":99,"schema_version":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Record
		if json.Unmarshal(data, &r) != nil {
			return
		}
		_, _ = r.ShownState(), r.SchemaState()
		for _, want := range []Request{RequestNone, RequestCancel, RequestPause} {
			if r.CheckRequest(want) == nil {
				require.NotNil(t, r.WithRequest(want))
			}
		}
		again, err := json.Marshal(&r)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(again, new(Record)))
		runToTheEnd(t, &r)
	})
}

// runToTheEnd takes a stored job to its end, as if everything succeeded.
func runToTheEnd(t *testing.T, r *Record) {
	m := ResumeMachine(r)
	for range 100 {
		if m.Record().Ended() {
			return
		}
		act, to := m.Next()
		switch act {
		case ActAwaitTurn:
			m.HasTurn()
		case ActAwaitVersion:
			m.Waited()
		case ActAwaitOlder:
			m.AwaitedOlder()
		case ActSleep:
			m.Slept()
		case ActPark:
			m.Reached(m.Record().WithRequest(RequestNone))
		default:
			after := m.Prepare(to)
			if act == ActChangeSchema || act == ActRepublish {
				after.SchemaVersion = m.Record().SchemaVersion + 1
			}
			m.Reached(after)
		}
	}
	require.Fail(t, "the job does not end")
}
