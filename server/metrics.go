package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"fastddl/event"
	"fastddl/kv"
)

// namespace begins the name of every metric.
const namespace = "fastddl"

// metrics holds what the server counts. It has a registry of its own, so that
// several servers of one process (tests) do not share figures.
type metrics struct {
	registry *prometheus.Registry

	connectionsTotal  prometheus.Counter
	statements        *prometheus.CounterVec
	statementDuration *prometheus.HistogramVec
	statementErrors   *prometheus.CounterVec

	ddl ddlMetrics
}

func newMetrics(openConnections func() int) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		connectionsTotal: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "server", Name: "connections_total",
			Help: "Client connections accepted."}),
		statements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "executor", Name: "statement_total",
			Help: "Statements executed, by first keyword."}, []string{"type"}),
		statementDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "server", Name: "handle_query_duration_seconds",
			Help:    "Time from receiving a statement to having its whole answer, by first keyword.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 22)}, []string{"sql_type"}),
		statementErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "server", Name: "execute_error_total",
			Help: "Statements that failed, by MySQL error number."}, []string{"code"}),
		ddl: newDDLMetrics(),
	}
	m.registry.MustRegister(
		m.connectionsTotal, m.statements, m.statementDuration, m.statementErrors,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: "server", Name: "connections",
			Help: "Client connections open."}, func() float64 { return float64(openConnections()) }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	m.registry.MustRegister(m.ddl.collectors()...)
	return m
}

// observeStatement counts a statement; code is "" for success.
func (m *metrics) observeStatement(kind string, elapsed time.Duration, code string) {
	m.statements.WithLabelValues(kind).Inc()
	m.statementDuration.WithLabelValues(kind).Observe(elapsed.Seconds())
	if code != "" {
		m.statementErrors.WithLabelValues(code).Inc()
	}
}

// ddlMetrics counts what the DDL components tell by events.
type ddlMetrics struct {
	queued       *prometheus.CounterVec
	states       *prometheus.CounterVec
	schemaStates *prometheus.CounterVec
	stages       *prometheus.CounterVec
	rows         prometheus.Counter
	files        prometheus.Counter
	bytes        prometheus.Counter
	ingestTime   prometheus.Counter
	retries      *prometheus.CounterVec
	throttled    *prometheus.CounterVec
	lockWaits    prometheus.Counter
	idleBlockers prometheus.Counter
	running      prometheus.Gauge
	reclaimed    prometheus.Counter
	// Dropped data that is still to be deleted.
	pendingRanges, pendingBytes prometheus.Gauge

	// mu guards live, the jobs that have not ended.
	mu   *sync.Mutex
	live map[int64]bool
}

func newDDLMetrics() ddlMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: "ddl", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: "ddl", Name: name, Help: help}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: "ddl", Name: name, Help: help})
	}
	return ddlMetrics{
		queued:       vec("jobs_queued_total", "DDL jobs queued, by type.", "type"),
		states:       vec("job_states_total", "Job states entered.", "state"),
		schemaStates: vec("schema_states_total", "Schema states entered by indexes and columns.", "state"),
		stages:       vec("backfill_stages_total", "Backfill stages entered.", "stage"),
		rows:         counter("backfill_rows_total", "Rows scanned and encoded by index builds."),
		files:        counter("ingest_files_total", "Sorted files imported into the store."),
		bytes:        counter("ingest_bytes_total", "Bytes of sorted files imported into the store."),
		ingestTime:   counter("ingest_seconds_total", "Time spent in imports."),
		retries:      vec("retries_total", "Operations tried again after an error.", "op"),
		throttled:    vec("throttled_seconds_total", "Time jobs were slowed down, by reason.", "reason"),
		lockWaits:    counter("metadata_lock_waits_total", "Reports of a job waiting for the metadata lock."),
		idleBlockers: counter("idle_blockers_ended_total", "Sessions ended because their idle transaction held up a job."),
		running:      gauge("running_jobs", "DDL jobs that are queued or running."),
		reclaimed:    counter("reclaimed_bytes_total", "Bytes of dropped tables and indexes that were deleted."),
		pendingRanges: gauge("reclaim_pending_ranges",
			"Dropped tables and indexes that are still to be deleted."),
		pendingBytes: gauge("reclaim_pending_bytes",
			"Estimated bytes of dropped tables and indexes that are still to be deleted."),
		mu:   new(sync.Mutex),
		live: make(map[int64]bool),
	}
}

func (d *ddlMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{d.queued, d.states, d.schemaStates, d.stages, d.rows, d.files, d.bytes,
		d.ingestTime, d.retries, d.throttled, d.lockWaits, d.idleBlockers, d.running,
		d.reclaimed, d.pendingRanges, d.pendingBytes}
}

// observe is the event listener.
func (d *ddlMetrics) observe(e event.Event) {
	switch e := e.(type) {
	case event.JobQueued:
		d.queued.WithLabelValues(e.Type).Inc()
		d.setLive(e.ID, true)
	case event.JobStateChanged:
		d.states.WithLabelValues(e.To).Inc()
		d.setLive(e.ID, !endState(e.To))
	case event.SchemaStateChanged:
		d.schemaStates.WithLabelValues(e.State).Inc()
	case event.StageChanged:
		d.stages.WithLabelValues(e.Stage).Inc()
	case event.RangeDone:
		d.rows.Add(float64(e.Rows))
	case event.Ingested:
		d.files.Add(float64(e.Files))
		d.bytes.Add(float64(e.Bytes))
		d.ingestTime.Add(e.Elapsed.Seconds())
	case event.Retry:
		d.retries.WithLabelValues(e.Op).Inc()
	case event.Throttled:
		d.throttled.WithLabelValues(e.Reason).Add(e.For.Seconds())
	case event.LockWait:
		d.lockWaits.Inc()
	case event.SpaceReclaimed:
		d.reclaimed.Add(float64(e.Bytes))
		d.pendingRanges.Set(float64(e.PendingRanges))
		d.pendingBytes.Set(float64(e.PendingBytes))
	case event.IdleBlockerEnded:
		d.idleBlockers.Inc()
	}
}

// endState reports whether a job in the state is over.
func endState(state string) bool {
	switch state {
	case "synced", "cancelled", "rollback done":
		return true
	}
	return false
}

// setLive notes that a job is queued or running, or has ended.
func (d *ddlMetrics) setLive(id int64, live bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if live {
		d.live[id] = true
	} else {
		delete(d.live, id)
	}
	d.running.Set(float64(len(d.live)))
}

// storeCollector shows the store's load signals.
type storeCollector struct {
	store kv.Store
	descs []*prometheus.Desc
}

func newStoreCollector(store kv.Store) *storeCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "store", name), help, nil, nil)
	}
	return &storeCollector{store: store, descs: []*prometheus.Desc{
		desc("l0_sublevels", "Read amplification of the top level."),
		desc("compaction_debt_bytes", "Estimate of what is left to compact."),
		desc("commit_p99_seconds", "99th percentile of commit latency over the last seconds."),
		desc("commits_per_second", "Commit rate over the last seconds."),
		desc("write_stalled", "1 while the store holds writers back."),
	}}
}

// Describe implements prometheus.Collector.
func (c *storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *storeCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.store.LoadSignals()
	stalled := 0.0
	if s.WriteStalled {
		stalled = 1
	}
	values := []float64{float64(s.L0Sublevels), float64(s.CompactionDebtBytes), s.CommitP99.Seconds(), s.CommitsPerSecond, stalled}
	for i, v := range values {
		ch <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, v)
	}
}
