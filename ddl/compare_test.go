package ddl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
)

// Only what a build has verified against rows that it has counted is known to be equal: not what
// a version of the program has built that did not count them, nor what may have entries of an
// older S beside.
func TestVerifiedTS(t *testing.T) {
	r := &job.Record{SnapshotTS: 7}
	require.Zero(t, verifiedTS(r))
	r.Counted = true
	require.EqualValues(t, 7, verifiedTS(r))
	r.ForgetSnapshot()
	require.Zero(t, verifiedTS(r))
	r.SnapshotTS, r.Counted = 8, true
	require.Zero(t, verifiedTS(r))
}
