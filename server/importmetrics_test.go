package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"fastddl/event"
	"fastddl/load/jobs"
)

// The metrics of imports count what has ended, by its outcome, and show what runs.
func TestImportMetrics(t *testing.T) {
	m := newImportMetrics(func() []jobs.Unfinished {
		return []jobs.Unfinished{{RowID: 9, DB: "shop", Table: "t\xff", Progress: jobs.Progress{Rows: 5, Read: 70, Bytes: 100, Percent: 35}}}
	})
	m.observe(event.ImportEnded{Rows: 10, SourceBytes: 300})
	m.observe(event.ImportEnded{Err: errors.New("a bad row")})
	m.observe(event.ImportEnded{Err: errors.New("cancelled"), Cancelled: true})
	m.observe(event.RangeDone{Rows: 99})
	require.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(`
# HELP fastddl_import_job_percent About how much of an IMPORT INTO is done, 0 to 100.
# TYPE fastddl_import_job_percent gauge
fastddl_import_job_percent{db="shop",job="9",table="t?"} 35
# HELP fastddl_import_job_rows Rows that an IMPORT INTO has read.
# TYPE fastddl_import_job_rows gauge
fastddl_import_job_rows{db="shop",job="9",table="t?"} 5
# HELP fastddl_import_job_source_bytes Bytes that an IMPORT INTO has read of its files.
# TYPE fastddl_import_job_source_bytes gauge
fastddl_import_job_source_bytes{db="shop",job="9",table="t?"} 70
# HELP fastddl_import_jobs_total IMPORT INTO that have ended, by their outcome.
# TYPE fastddl_import_jobs_total counter
fastddl_import_jobs_total{outcome="cancelled"} 1
fastddl_import_jobs_total{outcome="failed"} 1
fastddl_import_jobs_total{outcome="finished"} 1
# HELP fastddl_import_rows_total Rows of IMPORT INTO that have finished.
# TYPE fastddl_import_rows_total counter
fastddl_import_rows_total 10
# HELP fastddl_import_running_jobs IMPORT INTO that are queued or running.
# TYPE fastddl_import_running_jobs gauge
fastddl_import_running_jobs 1
# HELP fastddl_import_source_bytes_total Bytes of the files of IMPORT INTO that have finished.
# TYPE fastddl_import_source_bytes_total counter
fastddl_import_source_bytes_total 300
`)))
}
