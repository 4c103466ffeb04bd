package server

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/backfill"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/kv"
)

func TestDDLMetricsFollowEvents(t *testing.T) {
	m := newMetrics()
	job := func(id int64) event.Job { return event.Job{ID: id} }
	for _, e := range []event.Event{
		event.JobQueued{Job: job(1), Type: "add index"},
		event.JobQueued{Job: job(2), Type: "add index"},
		event.JobStateChanged{Job: job(1), From: "queueing", To: "running"},
		event.SchemaStateChanged{Job: job(1), State: "write only"},
		event.StageChanged{Job: job(1), Stage: "scan"},
		event.RangeDone{Job: job(1), Rows: 10},
		event.RangeDone{Job: job(1), Rows: 5},
		event.Ingested{Job: job(1), Files: 2, Bytes: 100, Elapsed: time.Second},
		event.Retry{Job: job(1), Op: "ingest", Err: errors.New("busy")},
		event.Throttled{Job: job(1), Reason: "write speed", For: 2 * time.Second},
		event.LockWait{Job: job(1)},
		event.JobStateChanged{Job: job(1), From: "running", To: "synced"},
	} {
		m.observe(e)
	}
	values := gather(t, m.registry)
	require.Equal(t, 2.0, values["fastddl_ddl_jobs_queued_total"])
	require.Equal(t, 15.0, values["fastddl_ddl_backfill_rows_total"])
	require.Equal(t, 2.0, values["fastddl_ddl_ingest_files_total"])
	require.Equal(t, 100.0, values["fastddl_ddl_ingest_bytes_total"])
	require.Equal(t, 1.0, values["fastddl_ddl_ingest_seconds_total"])
	require.Equal(t, 2.0, values["fastddl_ddl_throttled_seconds_total"])
	require.Equal(t, 1.0, values["fastddl_ddl_retries_total"])
	require.Equal(t, 2.0, values["fastddl_ddl_job_states_total"])
	require.Equal(t, 1.0, values["fastddl_ddl_schema_states_total"])
	require.Equal(t, 1.0, values["fastddl_ddl_backfill_stages_total"])
	require.Equal(t, 1.0, values["fastddl_ddl_metadata_lock_waits_total"])
}

// gather sums the series of every gauge and counter.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, s := range f.GetMetric() {
			values[f.GetName()] += s.GetGauge().GetValue() + s.GetCounter().GetValue()
		}
	}
	return values
}

func TestStoreMetrics(t *testing.T) {
	m := newMetrics()
	m.registry.MustRegister(newStoreCollector(loadedStore{}))
	values := gather(t, m.registry)
	require.Equal(t, 3.0, values["fastddl_store_l0_sublevels"])
	require.Equal(t, 0.5, values["fastddl_store_commit_p99_seconds"])
	require.Equal(t, 1.0, values["fastddl_store_write_stalled"])
	require.Equal(t, 10.0, values["fastddl_store_size_bytes"])
	require.Equal(t, 20.0, values["fastddl_store_disk_free_bytes"])
	require.Equal(t, 30.0, values["fastddl_store_disk_total_bytes"])

	m = newMetrics()
	m.registry.MustRegister(newStoreCollector(storeOfUnknownDisk{}))
	values = gather(t, m.registry)
	require.Equal(t, 10.0, values["fastddl_store_size_bytes"])
	require.NotContains(t, values, "fastddl_store_disk_free_bytes", "an unknown disk is not a full one")
}

type storeOfUnknownDisk struct{ loadedStore }

func (storeOfUnknownDisk) Sizes() (kv.Sizes, error) { return kv.Sizes{Store: 10}, nil }

type loadedStore struct{ kv.Store }

func (loadedStore) LoadSignals() kv.LoadSignals {
	return kv.LoadSignals{L0Sublevels: 3, CommitP99: 500 * time.Millisecond, WriteStalled: true}
}

func (loadedStore) Sizes() (kv.Sizes, error) {
	return kv.Sizes{Store: 10, DiskFree: 20, DiskTotal: 30}, nil
}

func TestGovernorMetrics(t *testing.T) {
	decision := flow.Full
	registry := prometheus.NewRegistry()
	registry.MustRegister(newGovernorCollector(func() flow.Decision { return decision }))
	values := gather(t, registry)
	require.Equal(t, 1.0, values["fastddl_ddl_governor_share"])
	require.Zero(t, values["fastddl_ddl_governor_giving_way"])
	decision = flow.Decision{Share: 0.25, Reason: flow.CommitLatency}
	values = gather(t, registry)
	require.Equal(t, 0.25, values["fastddl_ddl_governor_share"])
	require.Equal(t, 1.0, values["fastddl_ddl_governor_giving_way"])
}

func TestEveryEventIsLogged(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	listener := logEvents(zap.New(core))
	job := event.Job{ID: 9}
	for _, tc := range []struct {
		event event.Event
		level zapcore.Level
	}{
		{event.JobQueued{Job: job}, zapcore.InfoLevel},
		{event.JobStateChanged{Job: job}, zapcore.InfoLevel},
		{event.JobStateChanged{Job: job, Err: errors.New("x")}, zapcore.WarnLevel},
		{event.SchemaStateChanged{Job: job}, zapcore.InfoLevel},
		{event.LockWait{Job: job}, zapcore.DebugLevel},
		{event.Waiting{Job: job, Waited: 5 * time.Second}, zapcore.WarnLevel},
		{event.Waiting{Job: job, Waited: 5 * time.Second, ForResources: true}, zapcore.InfoLevel},
		{event.WaitEnded{Job: job}, zapcore.InfoLevel},
		{event.Command{Job: job}, zapcore.InfoLevel},
		{event.Command{Job: job, Err: errors.New("x")}, zapcore.WarnLevel},
		{event.Retry{Job: job}, zapcore.WarnLevel},
		{event.Progress{Job: job}, zapcore.DebugLevel},
		{event.RangeDone{Job: job}, zapcore.DebugLevel},
		{event.Throttled{Job: job}, zapcore.DebugLevel},
		{event.Ingested{Job: job}, zapcore.DebugLevel},
		{backfill.Finished{Job: job, Err: errors.New("x")}, zapcore.DebugLevel},
	} {
		listener(tc.event)
		got := logs.TakeAll()
		require.Len(t, got, 1)
		require.Equal(t, tc.event.String(), got[0].Message)
		require.Equal(t, tc.level, got[0].Level, "%T", tc.event)
		require.Equal(t, int64(9), got[0].ContextMap()["job"])
	}
}
