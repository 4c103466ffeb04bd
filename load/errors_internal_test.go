package load

import (
	"errors"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/load/rows"
)

// The list of bad rows holds no values of them, which may be long, and its texts are bounded.
func TestBadRowsHoldNoValues(t *testing.T) {
	long := strings.Repeat("\xc3\xa4", 1<<20)
	b := badRows{most: 3}
	require.False(t, b.add(&rows.RowError{Column: "n", Err: table.ErrTruncatedWrongValueForField.FastGenByArgs("int", long, "n", 1)}))
	require.False(t, b.add(&rows.RowError{Err: errors.New(long)}))
	require.True(t, b.add(&rows.RowError{Err: table.ErrTruncatedWrongValueForField.FastGenByArgs("int", "x", "n", 1)}))
	for _, e := range b.rows {
		require.LessOrEqual(t, len(e.Error()), 2*maxErrorText)
	}
	known := job.FindTerror(b.rows[0].Err)
	require.NotNil(t, known)
	require.EqualValues(t, 1366, terror.ToSQLError(known).Code)
	require.NotContains(t, known.Args(), long)
	require.Equal(t, "Incorrect int value: 'x' for column 'n' at row 1", terror.ToSQLError(job.FindTerror(b.rows[2].Err)).Message)
}
