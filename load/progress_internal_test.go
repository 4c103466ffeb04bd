package load

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is done of a load grows from 0 to 1, also if it reads and imports in rounds.
func TestDoneGrows(t *testing.T) {
	last := -1.0
	for _, s := range []State{
		{Stage: Waiting, SourceBytes: 100},
		{Stage: Reading, Rows: 1, SourceRead: 10, SourceBytes: 100},
		{Stage: Reading, Rows: 5, SourceRead: 50, SourceBytes: 100},
		{Stage: Importing, Rows: 5, SourceRead: 50, SourceBytes: 100, StageDone: 0.5},
		{Stage: Importing, Rows: 5, SourceRead: 50, SourceBytes: 100, StageDone: 0.9},
		{Stage: Reading, Rows: 10, Imported: 5, SourceRead: 100, SourceBytes: 100},
		{Stage: Importing, Rows: 10, Imported: 5, SourceRead: 100, SourceBytes: 100, StageDone: 0.5},
		{Stage: Verifying, Rows: 10, Imported: 10, SourceRead: 100, SourceBytes: 100},
		{Stage: Verifying, Rows: 10, Imported: 10, SourceRead: 100, SourceBytes: 100, StageDone: 1},
	} {
		done := s.Done()
		require.Greater(t, done, last, "%+v", s)
		last = done
	}
	require.InDelta(t, 1, last, 1e-9)
	require.Zero(t, State{Stage: Reading, Rows: 7}.Done(), "the size of a query is not known")
}
