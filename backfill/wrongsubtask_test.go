package backfill

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
)

// TestBuildWithASubtaskThatWasWrongIsReadInFull: a subtask that is built again, after it was found wrong, is no proof, whether its
// node builds it alone, beside others, or finds no rows in it.
func TestBuildWithASubtaskThatWasWrongIsReadInFull(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	idx := backfilltest.IndexOn(9, false, 1)
	for _, wrong := range []int{-1, 0, 3} {
		p := newProofRun(f, idx)
		opts, scheduler := f.shared(4, p.spec.Task, p.opts.Store)
		scheduler.wrong = func(i int) bool { return i == wrong }
		opts.Store, opts.Bus = p.opts.Store, p.opts.Bus
		res, err := Run(f.Ctx, opts, p.spec)
		require.NoError(t, err)
		require.Equal(t, []int{4}, scheduler.parts)
		require.Equal(t, wrong < 0, res.Sampled, "part %d was wrong", wrong)
		if wrong >= 0 {
			require.EqualValues(t, proofRows, p.readBack())
			require.Positive(t, p.faulty.Counts())
		}
		f.RequireLoaded(proofRows, p.spec.TS, idx)
		f.DropIndex(idx)
	}
	p := newProofRun(f, idx)
	parts := f.cut(p.spec.Task, 2)
	for _, wrong := range []int{-1, 0, 1} {
		held := []HeldSubtask{{Subtask: parts[0], Wrong: wrong == 0}, {Subtask: parts[1], Wrong: wrong == 1}}
		next := held[1:]
		results, err := RunSubtasks(f.Ctx, p.opts, SubtasksSpec{
			Task: p.spec.Task, First: held[0],
			Next: func(context.Context) (h HeldSubtask, ok bool, err error) {
				if ok = len(next) > 0; ok {
					h, next = next[0], nil
				}
				return h, ok, nil
			},
		})
		require.NoError(t, err)
		require.Len(t, results, 2)
		require.Equal(t, wrong < 0, provenBy(t, p, results), "part %d was wrong", wrong)
	}
	empty := newFixture(t, table, kinds)
	p = newProofRun(empty, idx)
	records := encode.RecordRange(table.ID)
	for _, wrong := range []bool{false, true} {
		part := HeldSubtask{Subtask: execution.Subtask{Ranges: []keyrange.StoredWeighted{{Start: records.Start, End: records.End}}}, Wrong: wrong}
		result, err := runPart(empty.Ctx, p.opts, p.spec.Task, part)
		require.NoError(t, err)
		require.Zero(t, result.Rows)
		require.Equal(t, !wrong, provenBy(t, p, []execution.SubtaskResult{result}))
	}
}

// provenBy says that a build which has got these results is proven.
func provenBy(t *testing.T, p *proofRun, results []execution.SubtaskResult) bool {
	b, err := newBuild(p.opts, p.spec)
	require.NoError(t, err)
	b.auto = true
	cp := b.newCheckpoint(nil)
	require.NoError(t, cp.addSubtasks(results))
	return b.proven(cp)
}
