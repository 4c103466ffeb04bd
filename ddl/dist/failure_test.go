package dist

import (
	"encoding/json"
	"fmt"
	"testing"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/kv"
)

// TestVerdictsOfParts: what a node has found in a part of a build is the job's error with all that it says.
func TestVerdictsOfParts(t *testing.T) {
	value := "secret"
	bad := job.BadRow{
		Index: "i", Column: "c", Partition: "p0", Handle: "5", Value: &value,
		Error: job.ErrorOf(types.ErrTruncatedWrongVal.GenWithStackByArgs("DOUBLE", value)),
	}
	bad.Shown = job.WithoutValues(bad.Error)
	for _, rows := range []*job.RowsError{
		{Err: bad.Error, Shown: bad.Shown, Rows: []job.BadRow{bad}},
		{Err: tidbkv.ErrKeyExists.FastGenByArgs("v", "t.u"), Duplicates: []job.Duplicate{{Index: "u", Entry: "v", Rows: 2, Handles: []string{"1", "2"}}}},
	} {
		data, err := json.Marshal(failureOf(job.Permanent(rows)))
		require.NoError(t, err)
		err = subtaskError(storedSubtask{outcome: data})
		require.True(t, job.IsPermanent(err))
		var got *job.RowsError
		require.ErrorAs(t, err, &got)
		require.Equal(t, job.ErrorOf(rows).GetMsg(), job.ErrorOf(got).GetMsg())
		require.Equal(t, terror.ToSQLError(job.ErrorOf(rows)), terror.ToSQLError(job.ErrorOf(got)))
		require.Equal(t, rows.Duplicates, got.Duplicates)
		require.Len(t, got.Rows, len(rows.Rows))
		if rows.Shown != nil {
			require.Equal(t, "Truncated incorrect ? value: '?'", job.ErrorOf(got.Shown).GetMsg())
			require.Equal(t, value, *got.Rows[0].Value)
			require.Equal(t, bad.Error.GetMsg(), got.Rows[0].Error.GetMsg())
		}
	}
	data, err := json.Marshal(failureOf(fmt.Errorf("read: %w", kv.ErrSnapshotTooOld)))
	require.NoError(t, err)
	require.ErrorIs(t, subtaskError(storedSubtask{outcome: data}), kv.ErrSnapshotTooOld)
}
