package schema

import (
	"encoding/json"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
)

// FuzzStoredJobs: what is stored of a job is decoded or refused, and what was decoded can
// be shown in TiDB's queue and stored again.
func FuzzStoredJobs(f *testing.F) {
	settings, err := json.Marshal(job.Settings{Threads: 3, MaxWriteSpeed: 1 << 20})
	require.NoError(f, err)
	record, err := json.Marshal(&job.Record{
		ID: 1, Type: model.ActionAddIndex, State: model.JobStateRunning, Step: job.StepSnapshot, DB: "d", Table: "t", Query: "q",
	})
	require.NoError(f, err)
	f.Add(record, settings)
	f.Add([]byte(`{"id":-1,"indexes":[null],"index_ids":[1,2,3],"location":{"name":"x"}}`), []byte(nil))
	f.Add([]byte(`null`), []byte(`null`))
	f.Fuzz(func(t *testing.T, record, settings []byte) {
		r, s, err := records.Decode(record, settings)
		if err != nil {
			return
		}
		require.NotNil(t, r)
		data, err := tidbJob(r, s).Encode(true)
		require.NoError(t, err)
		require.NoError(t, new(model.Job).Decode(data))
		ours, err := OwnPausedRow(data)
		require.NoError(t, err)
		require.True(t, ours)
		again, err := json.Marshal(r)
		require.NoError(t, err)
		_, _, err = records.Decode(again, nil)
		require.NoError(t, err)
	})
}
