package job

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A job that is undone goes through delete-only if a server may put entries, and
// ends when no server writes any.
func TestUndoing(t *testing.T) {
	short := []string{"change-schema undone", "await-version undone", "finish finished"}
	long := append([]string{"change-schema undo-delete-only", "await-version undo-delete-only"}, short...)
	for _, test := range []struct {
		at   []Step
		want []string
	}{
		{[]Step{StepQueued}, short[2:]},
		{[]Step{StepDeleteOnly}, short},
		{[]Step{StepWriteOnly, StepWriteReorg, StepSnapshot, StepBackfilled, StepDrained, StepCompared}, long},
	} {
		for _, at := range test.at {
			w := newWorld(t, true)
			for w.m.Record().Step != at {
				w.step()
			}
			w.m.RollBack(errors.New("why"))
			var got []string
			for !w.m.Record().Ended() {
				act, to := w.step()
				got = append(got, string(act)+" "+string(to))
			}
			require.Equal(t, test.want, got, "undone at %q", at)
		}
	}
}
