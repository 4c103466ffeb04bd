package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tidbmetrics "github.com/pingcap/tidb/pkg/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/ingest"
)

// jobMetricsFixture are the metrics of jobs that a test makes up.
type jobMetricsFixture struct {
	*jobMetrics
	now  time.Time
	jobs []status.JobInfo
}

func newJobMetricsFixture(t *testing.T) *jobMetricsFixture {
	f := &jobMetricsFixture{now: time.Unix(1000, 0)}
	f.jobMetrics = newJobMetrics(func() time.Time { return f.now })
	f.follow(func() []status.JobInfo { return f.jobs })
	t.Cleanup(func() { _ = f.close() })
	return f
}

// series are the label values of one of TiDB's metrics that have a part.
func series(c prometheus.Collector, part string) (found []string) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, _ := registry.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.Contains(l.GetValue(), part) {
					found = append(found, l.GetValue())
				}
			}
		}
	}
	return found
}

// TestJobsHaveSeriesWhileTheyRun: with their table, and what they wait for.
func TestJobsHaveSeriesWhileTheyRun(t *testing.T) {
	f := newJobMetricsFixture(t)
	f.jobs = []status.JobInfo{{
		ID: 7, DB: "shop", Table: "orders", Indexes: "i+u", State: "running", Percent: 42, RowCount: 10, HasRemaining: true, Remaining: 90 * time.Second,
		WaitReason: "metadata lock, held by 1 transaction: connection 5", WaitSince: f.now.Add(-11 * time.Second),
		Building: &status.Building{Allocation: ingest.Allocation{Workers: 3, MemoryBytes: 100, MemoryPart: 200, TempBytes: 4096, TempPart: 8192}},
	}, {ID: 8, DB: "shop", Table: "items", State: "queueing"}}
	require.NoError(t, testutil.CollectAndCompare(f, strings.NewReader(`
# HELP fastddl_ddl_job_eta_seconds Estimate of the time that an index build has to go; absent without one.
# TYPE fastddl_ddl_job_eta_seconds gauge
fastddl_ddl_job_eta_seconds{db="shop",job="7",table="orders"} 90
# HELP fastddl_ddl_job_memory_bytes Memory in which an index build sorts.
# TYPE fastddl_ddl_job_memory_bytes gauge
fastddl_ddl_job_memory_bytes{db="shop",job="7",table="orders"} 100
# HELP fastddl_ddl_job_memory_quota_bytes Memory in which an index build may sort beside the others.
# TYPE fastddl_ddl_job_memory_quota_bytes gauge
fastddl_ddl_job_memory_quota_bytes{db="shop",job="7",table="orders"} 200
# HELP fastddl_ddl_job_percent How much of an index build is done, 0 to 100.
# TYPE fastddl_ddl_job_percent gauge
fastddl_ddl_job_percent{db="shop",job="7",table="orders"} 42
fastddl_ddl_job_percent{db="shop",job="8",table="items"} 0
# HELP fastddl_ddl_job_rows Rows that an index build has read.
# TYPE fastddl_ddl_job_rows gauge
fastddl_ddl_job_rows{db="shop",job="7",table="orders"} 10
fastddl_ddl_job_rows{db="shop",job="8",table="items"} 0
# HELP fastddl_ddl_job_temp_bytes Temporary files of an index build.
# TYPE fastddl_ddl_job_temp_bytes gauge
fastddl_ddl_job_temp_bytes{db="shop",job="7",table="orders"} 4096
# HELP fastddl_ddl_job_temp_quota_bytes Temporary files that an index build may have beside the others.
# TYPE fastddl_ddl_job_temp_quota_bytes gauge
fastddl_ddl_job_temp_quota_bytes{db="shop",job="7",table="orders"} 8192
# HELP fastddl_ddl_job_wait_seconds How long an index build has waited, by the kind of reason; absent while it does not.
# TYPE fastddl_ddl_job_wait_seconds gauge
fastddl_ddl_job_wait_seconds{db="shop",job="7",reason="metadata lock",table="orders"} 11
# HELP fastddl_ddl_job_workers Workers of an index build on this node.
# TYPE fastddl_ddl_job_workers gauge
fastddl_ddl_job_workers{db="shop",job="7",table="orders"} 3
`)))
	f.jobs = nil
	require.Zero(t, testutil.CollectAndCount(f))
}

// TestJobSeriesAreBounded: many jobs on many tables have no more series than that.
func TestJobSeriesAreBounded(t *testing.T) {
	f := newJobMetricsFixture(t)
	for i := range 3 * maxJobSeries {
		id := int64(i + 1)
		f.jobs = append(f.jobs, status.JobInfo{ID: id, DB: "bounded", Table: fmt.Sprint("t", i), Indexes: "i", State: "running"})
		f.observe(event.RangeDone{Job: event.Job{ID: id}, Rows: 1})
	}
	require.Equal(t, 2*maxJobSeries, testutil.CollectAndCount(f), "percent and rows")
	require.Len(t, series(tidbmetrics.BackfillProgressGauge, "-bounded-"), maxJobSeries)
	require.Len(t, series(tidbmetrics.BackfillTotalCounter, "-bounded-"), maxJobSeries)
	for range 3 { // builds of other tables come and go
		for i := range f.jobs {
			j := &f.jobs[i]
			f.observe(event.JobStateChanged{Job: event.Job{ID: j.ID}, Schema: j.DB, Table: j.Table, Indexes: j.Indexes, To: "synced"})
			j.ID, j.Table = j.ID+1000, "x"+j.Table
			f.observe(event.RangeDone{Job: event.Job{ID: j.ID}, Rows: 1})
			f.now = f.now.Add(time.Second)
			if i%50 == 0 {
				f.refresh()
			}
		}
		f.refresh()
		require.LessOrEqual(t, len(series(tidbmetrics.BackfillTotalCounter, "-bounded-")), maxJobSeries)
		require.LessOrEqual(t, len(f.builds), maxJobSeries)
	}
	require.NoError(t, f.close())
	require.Empty(t, series(tidbmetrics.BackfillProgressGauge, "-bounded-"))
	require.Empty(t, series(tidbmetrics.BackfillTotalCounter, "-bounded-"))
}

// TestTiDBMetricsShowBuilds: its dashboards show our builds as TiDB's own, also those that end between two scrapes.
func TestTiDBMetricsShowBuilds(t *testing.T) {
	f := newJobMetricsFixture(t)
	running := tidbmetrics.DDLRunningJobCount.WithLabelValues(reorgPool)
	before := testutil.ToFloat64(running)
	job := event.Job{ID: 7}
	f.observe(event.RangeDone{Job: job, Rows: 10})
	f.jobs = []status.JobInfo{
		{ID: 7, DB: "fed", Table: "orders", Indexes: "i+u", State: "running", Percent: 42},
		{ID: 8, DB: "fed", Table: "items", Indexes: "i", State: "queueing"}, {ID: 9, DB: "fed", Table: "parts", Indexes: "i", State: "paused"},
	}
	f.refresh()
	require.Equal(t, before+1, testutil.ToFloat64(running), "what waits or is paused does not run")
	require.Equal(t, 42.0, testutil.ToFloat64(tidbmetrics.GetBackfillProgressByLabel(tidbmetrics.LblAddIndex, "fed", "orders", "i+u")))
	rows := tidbmetrics.GetBackfillTotalByLabel(tidbmetrics.LblAddIdxRate, "fed", "orders", "i+u")
	require.Equal(t, 10.0, testutil.ToFloat64(rows))

	f.observe(event.RangeDone{Job: job, Rows: 5})
	f.observe(event.JobStateChanged{Job: job, Schema: "fed", Table: "orders", Indexes: "i+u", From: "running", To: "synced"})
	f.jobs = nil
	f.refresh()
	require.Equal(t, before, testutil.ToFloat64(running))
	require.Empty(t, series(tidbmetrics.BackfillProgressGauge, "-fed-"))
	require.Equal(t, []string{"add_idx_rate-fed-orders-i+u"}, series(tidbmetrics.BackfillTotalCounter, "-fed-"))
	require.Equal(t, 15.0, testutil.ToFloat64(rows), "a scrape sees the last rows")
	require.Empty(t, f.builds)
	f.now = f.now.Add(countedFor)
	f.refresh()
	require.Empty(t, series(tidbmetrics.BackfillTotalCounter, "-fed-"))
}

func TestWaitReasonLabelsAreFew(t *testing.T) {
	for reason, want := range map[string]string{
		"metadata lock, held by 2 transactions: connections 5, 6": "metadata lock",
		"job 113, which is before it":                             "an earlier job",
		"next attempt after error: write conflict":                "next attempt after error",
		"IMPORT INTO the table, import job 3":                     "IMPORT INTO the table",
		"disk space: 3 MiB are free":                              "disk space",
		"yielding to foreground: statements":                      "yielding to foreground: statements",
		"paused":                                                  "paused",
	} {
		require.Equal(t, want, status.ReasonKind(reason))
	}
}
