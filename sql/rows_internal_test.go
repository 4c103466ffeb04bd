package sql

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/status"
)

// TestCommentsSayWhatAJobWaitsFor: some reasons name that, others say what the job does.
func TestCommentsSayWhatAJobWaitsFor(t *testing.T) {
	for reason, want := range map[string]string{
		"metadata lock, held by 1 transaction": "ingest, waits for metadata lock, held by 1 transaction",
		"job 7, which is before it":            "ingest, waits for job 7, which is before it",
		"next attempt after error: x":          "ingest, waits for next attempt after error: x",
		"paused":                               "ingest, paused",
		"throttled: the node's limit":          "ingest, throttled: the node's limit",
		"yielding to foreground: statements":   "ingest, yielding to foreground: statements",
		"waiting for memory: x":                "ingest, waiting for memory: x",
		"":                                     "ingest",
	} {
		require.Equal(t, want, comments(&status.JobInfo{WaitReason: reason}))
	}
}
