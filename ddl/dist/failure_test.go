package dist

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/kv"
)

// TestWrongSubtasksAreRemembered: what was found wrong is known to the next holder, whichever error ends a later attempt; an error of
// the store makes nothing wrong.
func TestWrongSubtasksAreRemembered(t *testing.T) {
	row := func(p *returned) Subtask {
		stored, err := p.stored()
		require.NoError(t, err)
		after := p.Released(p.to)
		after.Wrong = false // is in no column of its own
		if data, ok := stored.([]byte); ok {
			after.Wrong = wasWrong(after.State, data)
		}
		return after
	}
	held := []*heldSubtask{{Subtask: Subtask{Number: 0, State: Held}}, {Subtask: Subtask{Number: 1, State: Held}}}
	attempt := func(err error) {
		back := openAgain(held, err)
		for i := range back {
			held[i] = &heldSubtask{Subtask: row(&back[i])}
			held[i].Subtask = held[i].Claimed("another")
		}
	}
	wrong := fmt.Errorf("build: %w", &job.RowsError{Err: &kv.ScanCountError{Rows: 1, Visited: 2}})
	for _, err := range []error{errors.New("time-out"), nil, &kv.DamagedUnitError{Imported: true}} {
		attempt(err)
		require.False(t, held[0].Wrong || held[1].Wrong, "%v", err)
	}
	for _, err := range []error{wrong, errors.New("time-out"), nil} {
		attempt(err)
		require.True(t, held[0].Wrong && held[1].Wrong, "%v", err)
		require.True(t, held[1].MayFailAgain(), "it is built alone")
	}
	back := openAgain(held, nil)
	back[0].to, back[0].result = Done, struct{}{}
	require.False(t, row(&back[0]).Wrong, "the result says it")
	require.True(t, wasWrong(Open, []byte("{")), "damaged")
	require.False(t, wasWrong(Open, []byte("{}")))
}

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
