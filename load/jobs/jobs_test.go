package jobs

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/schema"
)

func record(id int64, table string, step Step) *Record {
	return &Record{Format: recordFormat, Step: step, Import: schema.Import{RowID: id, DB: "d", Table: table}}
}

// A table that is being imported is closed until its import has ended, to that import only.
func TestExclusion(t *testing.T) {
	var e Exclusion
	first, other := record(7, "t", StepDraining), record(8, "t", StepDraining)
	first.ImportID = 3
	name := TableName{"d", "t"}
	require.NoError(t, e.Check(name))
	require.NoError(t, e.exclude(first))
	require.NoError(t, e.exclude(first))
	require.Error(t, e.exclude(other))
	require.ErrorContains(t, e.Check(name), "Table 't' is being imported by job 3")
	require.NoError(t, e.Check(TableName{"other", "t"}))
	require.True(t, e.Concerns(7, TableName{"d", "x"}, name))
	require.False(t, e.Concerns(8, name))
	e.admit(other)
	require.Error(t, e.Check(name))
	e.admit(first)
	require.NoError(t, e.Check(name))
	require.NoError(t, e.exclude(other))
}

// What fails before the swap is undone; what is swapped or undone goes on.
func TestFailuresAreUndoneBeforeTheSwap(t *testing.T) {
	for step, undone := range map[Step]bool{StepQueued: true, StepDraining: true, StepLoading: true, StepSwapped: false, StepUndoing: false} {
		r := record(1, "t", step)
		require.Equal(t, undone, r.cancellable(), step)
		require.Equal(t, undone, r.failed(errors.New("why")), step)
		if undone {
			require.Equal(t, StepUndoing, r.Step)
			require.Equal(t, "why", r.Error)
		} else {
			require.Equal(t, step, r.Step)
		}
	}
	for step, excludes := range map[Step]bool{StepQueued: false, StepDraining: true, StepLoading: true, StepSwapped: true, StepUndoing: false} {
		require.Equal(t, excludes, record(1, "t", step).excludesWriters(), step)
	}
}

// Records of other formats are refused in words.
func TestRecordsOfOtherFormatsAreRefused(t *testing.T) {
	r := record(5, "t", StepLoading)
	r.Plan = json.RawMessage(`{}`)
	data, err := encode(r)
	require.NoError(t, err)
	back, err := decode(5, data)
	require.NoError(t, err)
	require.Equal(t, r, back)
	r.Format++
	data, err = json.Marshal(r)
	require.NoError(t, err)
	_, err = decode(5, data)
	require.ErrorContains(t, err, "the record of import 5 has format 2, this version reads 1")
	_, err = decode(5, []byte("{"))
	require.ErrorContains(t, err, "decode the record of import 5")
}

// What is left of a load is estimated from what this process has done of it.
func TestRemainingTimeOfAnImport(t *testing.T) {
	_, known := remaining(time.Second, 0, 2)
	require.False(t, known)
	left, known := remaining(10*time.Second, 0, 25)
	require.True(t, known)
	require.Equal(t, 30*time.Second, left)
	left, known = remaining(10*time.Second, 50, 75)
	require.True(t, known)
	require.Equal(t, 10*time.Second, left)
	_, known = remaining(10*time.Second, 98, 100)
	require.False(t, known)
}
