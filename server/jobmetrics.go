package server

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	tidbmetrics "github.com/pingcap/tidb/pkg/metrics"
	"github.com/prometheus/client_golang/prometheus"

	"fastddl/ddl/status"
	"fastddl/event"
)

const (
	// maxJobSeries bounds the jobs, and the tables, that have series of their own.
	maxJobSeries = 100
	// countedFor is how long the rows of a build that has ended are counted by name, so that a scrape sees the last of them.
	countedFor = 10 * time.Minute
	// reorgPool is the label of TiDB's workers for builds (jobTypeReorg in pkg/ddl/job_scheduler.go).
	reorgPool = "reorg"
)

// jobMetrics shows each index build of this node, in metrics of ours, and as TiDB shows its own, in TiDB's
// (tidb_ddl_backfill_percentage_progress, tidb_ddl_add_index_total, tidb_ddl_running_job_count): dashboards and alerts
// for these go on. TiDB's are brought up to date before each scrape. Series go with their jobs, those of TiDB's counter some
// minutes later; TiDB's own stay for ever.
type jobMetrics struct {
	now   func() time.Time
	descs jobDescs

	mu sync.Mutex
	// unfinished are the jobs; nil before there can be any.
	unfinished func() []status.JobInfo
	builds     map[int64]*countedBuild
	progress   map[string]prometheus.Gauge // series of TiDB's gauge, by the label's value
	counted    map[string]time.Time        // and of its counter, with when they were added to last
	running    float64                     // our part of TiDB's count
}

// countedBuild are rows that are not in TiDB's counter yet.
type countedBuild struct {
	name  *buildName // nil as long as it is not known
	rows  int64
	ended bool
	at    time.Time // of the last event
}

// buildName is what TiDB's labels have of a build.
type buildName struct{ db, table, indexes string }

func nameOf(db, table, indexes string) *buildName {
	valid := func(s string) string { return strings.ToValidUTF8(s, "?") } // others make a panic of a label
	return &buildName{valid(db), valid(table), valid(indexes)}
}

// label is the value that TiDB makes of it (generateReorgLabel in pkg/metrics/ddl.go), to delete the series by.
func (n *buildName) label(kind string) string {
	return strings.TrimSuffix(strings.Join([]string{kind, n.db, n.table, n.indexes}, "-"), "-")
}

type jobDescs struct {
	percent, eta, rows, workers, memory, memoryQuota, temp, tempQuota, wait *prometheus.Desc
}

func newJobMetrics(now func() time.Time) *jobMetrics {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "ddl", name), help, append([]string{"job", "db", "table"}, more...), nil)
	}
	return &jobMetrics{
		now: now,
		descs: jobDescs{
			percent:     desc("job_percent", "How much of an index build is done, 0 to 100."),
			eta:         desc("job_eta_seconds", "Estimate of the time that an index build has to go; absent without one."),
			rows:        desc("job_rows", "Rows that an index build has read."),
			workers:     desc("job_workers", "Workers of an index build on this node."),
			memory:      desc("job_memory_bytes", "Memory in which an index build sorts."),
			memoryQuota: desc("job_memory_quota_bytes", "Memory in which an index build may sort beside the others."),
			temp:        desc("job_temp_bytes", "Temporary files of an index build."),
			tempQuota:   desc("job_temp_quota_bytes", "Temporary files that an index build may have beside the others."),
			wait:        desc("job_wait_seconds", "How long an index build has waited, by the kind of reason; absent while it does not.", "reason"),
		},
		builds: make(map[int64]*countedBuild), progress: make(map[string]prometheus.Gauge), counted: make(map[string]time.Time),
	}
}

// follow has the metrics show jobs.
func (m *jobMetrics) follow(unfinished func() []status.JobInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unfinished = unfinished
}

// observe is the event listener.
func (m *jobMetrics) observe(e event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e := e.(type) {
	case event.RangeDone:
		if b := m.build(e.ID); b != nil {
			b.rows += e.Rows
		}
	case event.JobStateChanged:
		if b := m.build(e.ID); b != nil {
			b.name = nameOf(e.Schema, e.Table, e.Indexes)
			b.ended = isFinal(e.To)
		}
	}
}

func isFinal(state string) bool {
	return state == model.JobStateSynced.String() || state == model.JobStateCancelled.String() || state == model.JobStateRollbackDone.String()
}

// build returns what is counted of a job, nil if there are too many. The caller holds mu.
func (m *jobMetrics) build(id int64) *countedBuild {
	b := m.builds[id]
	if b == nil {
		if len(m.builds) >= maxJobSeries {
			return nil
		}
		b = new(countedBuild)
		m.builds[id] = b
	}
	b.at = m.now()
	return b
}

// refresh brings TiDB's metrics up to date, and returns the jobs that they show.
func (m *jobMetrics) refresh() []status.JobInfo {
	m.mu.Lock()
	unfinished := m.unfinished
	m.mu.Unlock()
	var jobs []status.JobInfo
	if unfinished != nil {
		jobs = unfinished() // without mu: it may be asked while a job emits an event
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	running := 0.0
	for i := range jobs {
		if s := jobs[i].State; s == model.JobStateRunning.String() || s == model.JobStateRollingback.String() || s == model.JobStateCancelling.String() {
			running++
		}
	}
	tidbmetrics.DDLRunningJobCount.WithLabelValues(reorgPool).Add(running - m.running)
	m.running = running
	jobs = jobs[:min(len(jobs), maxJobSeries)]
	m.showProgress(jobs)
	m.count()
	return jobs
}

// showProgress sets TiDB's gauge for jobs, and for no others. The caller holds mu.
func (m *jobMetrics) showProgress(jobs []status.JobInfo) {
	gone := m.progress
	m.progress = make(map[string]prometheus.Gauge, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		name := nameOf(j.DB, j.Table, j.Indexes)
		label := name.label(tidbmetrics.LblAddIndex)
		m.progress[label] = tidbmetrics.GetBackfillProgressByLabel(tidbmetrics.LblAddIndex, name.db, name.table, name.indexes)
		m.progress[label].Set(j.Percent)
		delete(gone, label)
		if b := m.builds[j.ID]; b != nil {
			b.name = name
		}
	}
	for label := range gone {
		tidbmetrics.BackfillProgressGauge.DeleteLabelValues(label)
	}
}

// count adds to TiDB's counter what is known by name, and takes away the oldest series. The caller holds mu.
func (m *jobMetrics) count() {
	now := m.now()
	for id, b := range m.builds {
		if b.name != nil && b.rows > 0 {
			tidbmetrics.GetBackfillTotalByLabel(tidbmetrics.LblAddIdxRate, b.name.db, b.name.table, b.name.indexes).Add(float64(b.rows))
			m.counted[b.name.label(tidbmetrics.LblAddIdxRate)] = now
			b.rows = 0
		}
		// A part of a build of another node has no name here.
		if b.ended || now.Sub(b.at) >= countedFor {
			delete(m.builds, id)
		}
	}
	labels := make([]string, 0, len(m.counted))
	for label := range m.counted {
		labels = append(labels, label)
	}
	slices.SortFunc(labels, func(a, b string) int { return m.counted[b].Compare(m.counted[a]) }) // newest first
	for i, label := range labels {
		if i >= maxJobSeries || now.Sub(m.counted[label]) >= countedFor {
			m.forget(label)
		}
	}
}

// forget takes a series from TiDB's counter. The caller holds mu.
func (m *jobMetrics) forget(label string) {
	tidbmetrics.BackfillTotalCounter.DeleteLabelValues(label)
	delete(m.counted, label)
}

// close takes everything of ours from TiDB's metrics.
func (m *jobMetrics) close() error {
	m.follow(nil)
	m.refresh()
	m.mu.Lock()
	defer m.mu.Unlock()
	for label := range m.counted {
		m.forget(label)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (m *jobMetrics) Describe(ch chan<- *prometheus.Desc) {
	d := &m.descs
	for _, d := range []*prometheus.Desc{d.percent, d.eta, d.rows, d.workers, d.memory, d.memoryQuota, d.temp, d.tempQuota, d.wait} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *jobMetrics) Collect(ch chan<- prometheus.Metric) {
	jobs, now := m.refresh(), m.now()
	for i := range jobs {
		j := &jobs[i]
		name := nameOf(j.DB, j.Table, "")
		gauge := func(d *prometheus.Desc, value float64, more ...string) {
			labels := append([]string{strconv.FormatInt(j.ID, 10), name.db, name.table}, more...)
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
		}
		gauge(m.descs.percent, j.Percent)
		gauge(m.descs.rows, float64(j.RowCount))
		if b := j.Building; b != nil {
			gauge(m.descs.workers, float64(b.Workers))
			gauge(m.descs.memory, float64(b.MemoryBytes))
			gauge(m.descs.memoryQuota, float64(b.MemoryPart))
			gauge(m.descs.temp, float64(b.TempBytes))
			gauge(m.descs.tempQuota, float64(b.TempPart))
		}
		if j.HasRemaining {
			gauge(m.descs.eta, j.Remaining.Seconds())
		}
		if !j.WaitSince.IsZero() {
			gauge(m.descs.wait, max(0, now.Sub(j.WaitSince).Seconds()), status.ReasonKind(j.WaitReason))
		}
	}
}
