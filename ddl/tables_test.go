package ddl

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
)

// TestPanicInAReportIsNotTheJobs: a job whose end cannot be reported ends all the same.
func TestPanicInAReportIsNotTheJobs(t *testing.T) {
	task := &task{d: &DDL{opts: Options{Logger: zap.NewNop()}, reports: &status.Tables{Logger: zap.NewNop()}}}
	require.NotPanics(t, func() {
		task.reportEnd(&session.Txn{}, &job.Record{Duplicates: []job.Duplicate{{Handles: []string{"1"}}}})
	})
}
