package server

import (
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"fastddl/event"
	"fastddl/internal/memory"
	"fastddl/kv"
)

// namespace begins the name of every metric.
const namespace = "fastddl"

// newRegistry returns a registry with the metrics of the build. Those of
// the process and of TiDB are in the default one.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewBuildInfoCollector())
	return r
}

// metrics counts the events of the DDL components. It has a registry of its
// own, so that servers that follow each other in a process do not share figures.
type metrics struct {
	registry *prometheus.Registry

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
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: "ddl", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: "ddl", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		registry:     newRegistry(),
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
	}
	for _, s := range []model.JobState{
		model.JobStateRunning, model.JobStatePaused, model.JobStateRollingback, model.JobStateSynced, model.JobStateCancelled, model.JobStateRollbackDone,
	} {
		m.states.WithLabelValues(s.String()) // a series that begins with 1 has not increased
	}
	m.registry.MustRegister(m.queued, m.states, m.schemaStates, m.stages, m.rows, m.files, m.bytes,
		m.ingestTime, m.retries, m.throttled, m.lockWaits, m.idleBlockers)
	return m
}

// observe is the event listener.
func (m *metrics) observe(e event.Event) {
	switch e := e.(type) {
	case event.JobQueued:
		m.queued.WithLabelValues(e.Type).Inc()
	case event.JobStateChanged:
		m.states.WithLabelValues(e.To).Inc()
	case event.SchemaStateChanged:
		m.schemaStates.WithLabelValues(e.State).Inc()
	case event.StageChanged:
		m.stages.WithLabelValues(e.Stage).Inc()
	case event.RangeDone:
		m.rows.Add(float64(e.Rows))
	case event.Ingested:
		m.files.Add(float64(e.Files))
		m.bytes.Add(float64(e.Bytes))
		m.ingestTime.Add(e.Elapsed.Seconds())
	case event.Retry:
		m.retries.WithLabelValues(e.Op).Inc()
	case event.Throttled:
		m.throttled.WithLabelValues(e.Reason).Add(e.For.Seconds())
	case event.LockWait:
		m.lockWaits.Inc()
	case event.IdleBlockerEnded:
		m.idleBlockers.Inc()
	}
}

// newRunningJobs counts the jobs that this node runs and that have not ended: events
// do not include those of an earlier process or of another node.
func newRunningJobs(unfinished func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: "ddl", Name: "running_jobs", Help: "Index builds of this node that are queued or running.",
	}, func() float64 { return float64(unfinished()) })
}

// newMemoryLimit shows how much memory the process may use.
func newMemoryLimit(b memory.Budget) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: "server", Name: "memory_limit_bytes", Help: "Memory that the process may use: memory-limit, or its default.",
	})
	g.Set(float64(b.Limit))
	return g
}

// newHealthy shows what /health answers.
func newHealthy(health func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: "server", Name: "healthy", Help: "1 while statements are accepted and the store can execute them, as /health says.",
	}, func() float64 {
		if health() != nil {
			return 0
		}
		return 1
	})
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
		desc("size_bytes", "What the store's files take."),
		desc("disk_free_bytes", "What the store's disk has left."),
		desc("disk_total_bytes", "The size of the store's disk."),
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
	if sizes, ok := c.store.(kv.SizeReporter); ok {
		if s, err := sizes.Sizes(); err == nil { // a figure that is missing shows that, better than a zero
			values = append(values, float64(s.Store))
			if s.DiskTotal > 0 { // the store looks at its disk
				values = append(values, float64(s.DiskFree), float64(s.DiskTotal))
			}
		}
	}
	for i, v := range values {
		ch <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, v)
	}
}
