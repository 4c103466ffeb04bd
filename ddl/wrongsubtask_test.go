package ddl

import (
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/kv"
)

// TestSubtaskThatIsWrongIsBuiltOnceMore: a subtask whose proof fails is given back, like one that has met an error of the store; when it
// fails again, so does the job.
func TestSubtaskThatIsWrongIsBuiltOnceMore(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	f.Load(500)
	store := &backfilltest.CountingScans{Store: f.Store, OnBatch: func(b *kv.RowBatch) error {
		b.Visited++
		return nil
	}}
	b := NewBackfiller(backfill.Options{Store: store, TempDir: f.Temp})
	records := encode.RecordRange(table.ID)
	task := dist.SubtasksTask{TempDir: f.Temp, SubtasksSpec: backfill.SubtasksSpec{
		Task: encode.Task{JobID: 1, Table: table, Indexes: []*model.IndexInfo{backfilltest.IndexOn(9, false, 1)}, TS: f.TS()},
		First: backfill.HeldSubtask{Subtask: execution.Subtask{Ranges: []keyrange.StoredWeighted{
			{Start: records.Start, End: records.End, Weight: 1},
		}}},
	}}
	for _, wrong := range []bool{false, true} {
		task.First.Wrong = wrong
		_, err := b.BackfillSubtasks(t.Context(), task)
		require.True(t, backfill.IsWrong(err))
		require.Equal(t, wrong, job.IsPermanent(err))
	}
}

// TestWrongSubtasksShowNoRows: what all may read of a subtask that is wrong names no key, the first time and the second, and it is
// still known for wrong.
func TestWrongSubtasksShowNoRows(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	f.Load(500)
	span := kv.KeyRange{Start: []byte("secret"), End: []byte("secrets")}
	var fails error
	store := &backfilltest.CountingScans{Store: f.Store, OnBatch: func(*kv.RowBatch) error { return fails }}
	b := NewBackfiller(backfill.Options{Store: store, TempDir: f.Temp})
	records := encode.RecordRange(table.ID)
	task := dist.SubtasksTask{TempDir: f.Temp, SubtasksSpec: backfill.SubtasksSpec{
		Task: encode.Task{JobID: 1, Table: table, Indexes: []*model.IndexInfo{backfilltest.IndexOn(9, false, 1)}, TS: f.TS()},
		First: backfill.HeldSubtask{Subtask: execution.Subtask{Ranges: []keyrange.StoredWeighted{
			{Start: records.Start, End: records.End, Weight: 1},
		}}},
	}}
	for _, fails = range []error{
		&kv.ScanCountError{Range: span, Visited: 7, Rows: 6}, &kv.ImportAccountError{Range: span, Problem: "lost"},
		&compare.EntryError{Index: "i", Key: span.Start},
	} {
		for _, task.First.Wrong = range []bool{false, true} {
			_, err := b.BackfillSubtasks(t.Context(), task)
			require.True(t, backfill.IsWrong(err))
			require.Equal(t, task.First.Wrong, job.IsPermanent(err))
			require.Contains(t, err.Error(), "736563726574", "for the session")
			require.NotContains(t, job.TextForAll(err), "736563726574")
			require.NotEmpty(t, job.TextForAll(err))
		}
	}
}
