package backfill

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRowsLostByTheBuildsScanAreMissed: what the scan of a build has lost is lost for
// its index, unique or not, and the build must not call that right: what it expects in
// the index must come from a reading of its own, at least the number of rows by keys
// alone.
func TestRowsLostByTheBuildsScanAreMissed(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(5000)
	opts := f.options()
	opts.Store, opts.BatchRows = &losingStore{f.store, 2}, 100
	_, err := Run(f.ctx, opts, Spec{Task: f.task(indexOn(9, false, 1))})
	var lost *RowCountError
	require.ErrorAs(t, err, &lost)
}
