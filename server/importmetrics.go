package server

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"fastddl/event"
	"fastddl/load/jobs"
)

// importMetrics shows IMPORT INTO: what has ended in this process, and each import that runs.
type importMetrics struct {
	ended      *prometheus.CounterVec
	rows       prometheus.Counter
	bytes      prometheus.Counter
	unfinished func() []jobs.Unfinished
	descs      importDescs
}

type importDescs struct{ running, percent, rows, bytes *prometheus.Desc }

// Outcomes of imports.
const (
	importFinished  = "finished"
	importCancelled = "cancelled"
	importFailed    = "failed"
)

// newImportMetrics returns metrics that ask unfinished for what runs.
func newImportMetrics(unfinished func() []jobs.Unfinished) *importMetrics {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: namespace, Subsystem: "import", Name: name, Help: help}
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "import", name), help, labels, nil)
	}
	m := &importMetrics{
		ended:      prometheus.NewCounterVec(opts("jobs_total", "IMPORT INTO that have ended, by their outcome."), []string{"outcome"}),
		rows:       prometheus.NewCounter(opts("rows_total", "Rows of IMPORT INTO that have finished.")),
		bytes:      prometheus.NewCounter(opts("source_bytes_total", "Bytes of the files of IMPORT INTO that have finished.")),
		unfinished: unfinished,
		descs: importDescs{
			running: desc("running_jobs", "IMPORT INTO that are queued or running."),
			percent: desc("job_percent", "About how much of an IMPORT INTO is done, 0 to 100.", "job", "db", "table"),
			rows:    desc("job_rows", "Rows that an IMPORT INTO has read.", "job", "db", "table"),
			bytes:   desc("job_source_bytes", "Bytes that an IMPORT INTO has read of its files.", "job", "db", "table"),
		},
	}
	for _, outcome := range []string{importFinished, importCancelled, importFailed} {
		m.ended.WithLabelValues(outcome) // a series that begins at 0 shows its first step
	}
	return m
}

// observe is the event listener.
func (m *importMetrics) observe(e event.Event) {
	ended, ok := e.(event.ImportEnded)
	if !ok {
		return
	}
	outcome := importFinished
	switch {
	case ended.Cancelled:
		outcome = importCancelled
	case ended.Err != nil:
		outcome = importFailed
	}
	m.ended.WithLabelValues(outcome).Inc()
	m.rows.Add(float64(ended.Rows))
	m.bytes.Add(float64(ended.SourceBytes))
}

// Describe implements prometheus.Collector.
func (m *importMetrics) Describe(ch chan<- *prometheus.Desc) {
	m.ended.Describe(ch)
	m.rows.Describe(ch)
	m.bytes.Describe(ch)
	for _, d := range []*prometheus.Desc{m.descs.running, m.descs.percent, m.descs.rows, m.descs.bytes} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *importMetrics) Collect(ch chan<- prometheus.Metric) {
	m.ended.Collect(ch)
	m.rows.Collect(ch)
	m.bytes.Collect(ch)
	all := m.unfinished()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(m.descs.running, float64(len(all)))
	for i := range all[:min(len(all), maxJobSeries)] {
		j := &all[i]
		name := nameOf(j.DB, j.Table, "")
		id := strconv.FormatInt(j.RowID, 10)
		gauge(m.descs.percent, j.Progress.Percent, id, name.db, name.table)
		gauge(m.descs.rows, float64(j.Progress.Rows), id, name.db, name.table)
		gauge(m.descs.bytes, float64(j.Progress.Read), id, name.db, name.table)
	}
}

// unfinishedImports are those of the open node.
func (s *Server) unfinishedImports() []jobs.Unfinished { return s.node.UnfinishedImports() }
