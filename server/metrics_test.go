package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	pingcaperrors "github.com/pingcap/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/backfill"
	"fastddl/ddl/job"
	"fastddl/ddl/status"
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

// TestEndsAreCountedFromZero: Prometheus sees no increase in a series that begins with 1.
func TestEndsAreCountedFromZero(t *testing.T) {
	families, err := newMetrics().registry.Gather()
	require.NoError(t, err)
	var states []string
	for _, f := range families {
		if f.GetName() == "fastddl_ddl_job_states_total" {
			for _, s := range f.GetMetric() {
				require.Zero(t, s.GetCounter().GetValue())
				states = append(states, s.GetLabel()[0].GetValue())
			}
		}
	}
	require.Subset(t, states, []string{"synced", "cancelled", "rollback done"})
}

func TestHealthyMetricIsHealth(t *testing.T) {
	var health error
	registry := prometheus.NewRegistry()
	registry.MustRegister(newHealthy(func() error { return health }))
	require.Equal(t, 1.0, gather(t, registry)["fastddl_server_healthy"])
	health = errors.New("disk full")
	require.Zero(t, gather(t, registry)["fastddl_server_healthy"])
}

// TestEndOfABuildIsOneLine: all of its history, as JSON with the names of the columns; no value that tidb_redact_log hides.
func TestEndOfABuildIsOneLine(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	began := time.Unix(1000, 0)
	end := status.JobEnded{Job: event.Job{ID: 9}, Info: status.JobInfo{
		DB: "shop", Table: "orders", Indexes: "i", State: "synced", Query: "ALTER TABLE orders ADD c INT DEFAULT 4711, ADD INDEX i (c)",
		Client: job.Client{User: "root@%", ConnID: 5, Program: "mysql"}, StartTime: began, EndTime: began.Add(2500 * time.Millisecond), RowCount: 70,
		History: job.History{
			Stages: []job.StageTime{{Stage: job.StageScan, Seconds: 1.5, Rows: 70}}, Costs: job.Costs{ReadBytes: 10, WrittenBytes: 20},
			Held: map[string]float64{"write speed": 0.5}, Waited: []job.Waited{{Reason: "metadata lock", ConnID: 4, Seconds: 2}},
		},
	}}
	line := func() string {
		logEvents(zap.New(core))(end)
		got := logs.TakeAll()
		require.Len(t, got, 1)
		text, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "message"}).EncodeEntry(got[0].Entry, got[0].Context)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(text.String(), "\n"))
		return text.String()
	}
	require.JSONEq(t, `{"message":"job 9 on shop.orders has ended: synced, 70 rows read in 2.5s","job":9,"build":{
		"job_id":9,"db_name":"shop","table_name":"orders","indexes":"i","job_type":"","state":"synced",
		"query":"ALTER TABLE orders ADD c INT DEFAULT 4711, ADD INDEX i (c)",
		"user_name":"root@%","conn_id":5,"program_name":"mysql","start_time":"`+began.Format(time.RFC3339Nano)+`","end_time":"`+began.Add(2500*time.Millisecond).Format(time.RFC3339Nano)+`",
		"seconds":2.5,"row_count":70,"read_bytes":10,"written_bytes":20,"stages":[{"stage":"scan","seconds":1.5,"rows":70,"bytes":0}],
		"held_seconds":{"write speed":0.5},"waited_for":[{"reason":"metadata lock","conn_id":4,"seconds":2}]}}`, line())

	before := pingcaperrors.RedactLogEnabled.Load()
	defer pingcaperrors.RedactLogEnabled.Store(before)
	pingcaperrors.RedactLogEnabled.Store(pingcaperrors.RedactLogEnable)
	require.NotContains(t, line(), "4711")
	require.Contains(t, line(), "default ?")
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
	require.Zero(t, values["fastddl_ddl_governor_yielding"])
	decision = flow.Decision{Share: 0.25, Reason: flow.TargetLatency}
	values = gather(t, registry)
	require.Equal(t, 0.25, values["fastddl_ddl_governor_share"])
	require.Equal(t, 1.0, values["fastddl_ddl_governor_yielding"])
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
		{status.JobEnded{Job: job}, zapcore.InfoLevel},
		{status.JobEnded{Job: job, Info: status.JobInfo{Error: "x"}}, zapcore.WarnLevel},
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
