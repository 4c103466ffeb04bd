package jobs

import (
	"context"
	"errors"
	"testing"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/stretchr/testify/require"
)

// The rows of a query have an end only if all of them were sent: an import of some of them must not take them for all.
func TestRowsOfAFailedQueryHaveNoEnd(t *testing.T) {
	failed := errors.New("the query has failed")
	for _, fails := range []error{nil, failed} {
		job := new(task)
		req := &Request{Query: func(_ context.Context, rows chan<- importer.QueryRow) error {
			rows <- importer.QueryRow{ID: 1}
			return fails
		}}
		job.openQuery(req)
		require.Equal(t, fails, job.sender(req)(t.Context()))
		require.EqualValues(t, 1, (<-job.query.rows).ID)
		select {
		case _, open := <-job.query.rows:
			require.False(t, open)
			require.NoError(t, fails, "the rows of a query that has failed have an end")
		default:
			require.Error(t, fails, "the rows have no end")
		}
	}
}
