package ddl

import (
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/internal/invariants"
)

// Each assertion passes what is right and panics with what is not.
func TestAssertions(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("assertions are off: they are on with the build tag invariants")
	}
	record := func(change func(r *job.Record)) *job.Record {
		r := &job.Record{ID: 7, State: model.JobStateRunning, Owner: "a", Epoch: 2, Revision: 3, IndexIDs: []int64{1}}
		change(r)
		return r
	}
	for _, test := range []struct {
		name          string
		before, after func(r *job.Record)
		wrong         string
	}{
		{"a step", func(r *job.Record) { r.Step = job.StepWriteReorg }, func(r *job.Record) { r.Step = job.StepSnapshot }, ""},
		{"the same step", func(r *job.Record) {}, func(r *job.Record) {}, ""},
		{"two steps", func(r *job.Record) { r.Step = job.StepDeleteOnly }, func(r *job.Record) { r.Step = job.StepSnapshot }, `goes from "delete-only"`},
		{"another S", func(r *job.Record) { r.Step = job.StepSnapshot }, func(r *job.Record) { r.Step = job.StepWriteReorg }, ""},
		{"back", func(r *job.Record) { r.Step = job.StepWriteReorg }, func(r *job.Record) { r.Step = job.StepWriteOnly }, "goes from"},
		{"undone", func(r *job.Record) { r.Step, r.State = job.StepSnapshot, model.JobStateRollingback },
			func(r *job.Record) { r.Step = job.StepUndoDeleteOnly }, ""},
		{"undone without a reason", func(r *job.Record) { r.Step = job.StepSnapshot }, func(r *job.Record) { r.Step = job.StepUndoDeleteOnly }, "is undone"},
		{"undone and done", func(r *job.Record) { r.Step, r.State = job.StepSnapshot, model.JobStateRollingback },
			func(r *job.Record) { r.Step = job.StepBackfilled }, "although it is being undone"},
		{"not compared", func(r *job.Record) { r.Step, r.Compare = job.StepBackfilled, true },
			func(r *job.Record) { r.Step, r.Compare = job.StepPublic, true }, "after 0 comparisons"},
		{"compared", func(r *job.Record) { r.Step, r.Compare, r.Compared = job.StepCompared, true, 1 },
			func(r *job.Record) { r.Step, r.Compare = job.StepPublic, true }, ""},
		{"another epoch", func(r *job.Record) {}, func(r *job.Record) { r.Epoch++ }, "epoch 3"},
		{"another owner", func(r *job.Record) { r.Owner = "b" }, func(r *job.Record) { r.Owner = "b" }, `is written by "a"`},
		{"the same revision", func(r *job.Record) {}, func(r *job.Record) { r.Revision-- }, "revision 3"},
	} {
		before, after := record(test.before), record(test.after)
		after.Revision++
		requirePanic(t, test.name, test.wrong, func() { assertWritten(before, after, "a") })
	}

	type states = map[int64]model.SchemaState
	r := record(func(*job.Record) {})
	for _, test := range []struct {
		name          string
		before, after states
		wrong         string
	}{
		{"new", states{}, states{1: model.StateDeleteOnly}, ""},
		{"new and write-only", states{}, states{1: model.StateWriteOnly}, "goes from none to write only"},
		{"forward", states{1: model.StateWriteReorganization, 2: model.StatePublic}, states{1: model.StatePublic, 2: model.StateWriteOnly}, ""},
		{"undone", states{1: model.StateWriteReorganization}, states{1: model.StateDeleteOnly}, ""},
		{"gone at once", states{1: model.StateWriteReorganization}, states{}, "to none"},
		{"public at once", states{1: model.StateDeleteOnly}, states{1: model.StatePublic}, "to public"},
		{"public and undone", states{1: model.StatePublic}, states{1: model.StateWriteOnly}, "is public"},
		{"that of a dropped column", states{2: model.StateWriteOnly}, states{}, ""},
		{"another comes back", states{2: model.StateWriteOnly}, states{2: model.StatePublic}, "does not build"},
		{"another's", states{2: model.StatePublic}, states{1: model.StateDeleteOnly, 2: model.StateDeleteOnly}, "index 2"},
	} {
		requirePanic(t, test.name, test.wrong, func() { assertStates(r, test.before, test.after) })
	}

	held := &task{scheduler: &dist.Scheduler{}}
	importing := record(func(r *job.Record) { r.Step, r.SnapshotTS = job.StepSnapshot, 5 })
	requirePanic(t, "no hold", "does not hold", func() { held.assertHeld(importing) })
	requirePanic(t, "too early", "imports at step", func() { held.assertHeld(r) })
	requirePanic(t, "no import", "", func() { held.assertNoImport(importing) })
	held.imports.Add(1)
	requirePanic(t, "an import", "during its import", func() { held.assertNoImport(importing) })
	drained := record(func(r *job.Record) { r.Step, r.SnapshotTS = job.StepDrained, 5 })
	requirePanic(t, "after the drain", "", func() { assertComparable(drained, 6) })
	requirePanic(t, "at S", "S is 5", func() { assertComparable(drained, 5) })
	requirePanic(t, "before the drain", "compares at step", func() { assertComparable(importing, 6) })
}

// requirePanic requires that fn panics with a message that contains text, or not at all
// if that is empty.
func requirePanic(t *testing.T, name, text string, fn func()) {
	t.Helper()
	if text == "" {
		require.NotPanics(t, fn, name)
		return
	}
	defer func() {
		require.Contains(t, recover(), text, name)
	}()
	fn()
	require.Fail(t, "it did not panic", name)
}
