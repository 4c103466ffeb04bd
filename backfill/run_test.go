package backfill

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunBuildsWhatTheLibraryWould(t *testing.T) {
	r := newRand(t)
	for range 12 {
		table, idx, kinds := randomTable(r)
		f := newFixture(t, table, kinds)
		for range r.IntN(4) {
			f.insert(r, 1+r.IntN(2000))
		}
		second := randomIndex(r, table, kinds, 8)
		idx.Unique, second.Unique = false, false
		what := describe(table, idx, kinds) + " and " + describe(table, second, kinds)

		spec := f.spec(idx, second)
		res, err := Run(f.ctx, f.options(), spec)
		require.NoError(t, err, what)
		require.EqualValues(t, len(f.rows), res.Rows)
		require.EqualValues(t, 2*len(f.rows), res.Entries)
		f.requireIndex(idx, spec.TS, what)
		f.requireIndex(second, spec.TS, what)
		f.requireNoTempFiles()
	}
}
