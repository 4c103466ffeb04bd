package ddl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/compare"
	"fastddl/ddl/job"
)

// Only what a build has verified against rows that it has counted is known to be equal: not what
// a version of the program has built that did not count them, nor what may have entries of an
// older S beside.
func TestVerified(t *testing.T) {
	r := &job.Record{SnapshotTS: 7, RowCount: 3}
	require.Zero(t, verified(r))
	r.Counted = true
	require.Equal(t, compare.Verified{TS: 7, Rows: 3}, verified(r))
	r.ForgetSnapshot()
	require.Zero(t, verified(r))
	r.SnapshotTS, r.Counted = 8, true
	require.Zero(t, verified(r))
}
