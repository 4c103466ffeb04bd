package backfill

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/event"
)

// A checkpoint that is damaged or of a later version is dropped, and the build begins again over what it has imported; one of before
// there were formats is used.
func TestCheckpointThatCannotBeReadIsDropped(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 3000)
	idx := backfilltest.IndexOn(9, false, 2)
	spec := f.spec(idx)
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval, opts.MaxWorkers = 64, time.Millisecond, 1
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		spec.Checkpoint = slices.Clone(data)
		return backfilltest.ErrInjected
	}
	_, err := Run(f.Ctx, opts, spec)
	require.ErrorIs(t, err, backfilltest.ErrInjected)
	saved := string(spec.Checkpoint)
	require.Contains(t, saved, `{"format":1,`)
	opts.SaveCheckpoint = nil
	for name, c := range map[string]struct{ checkpoint, dropped string }{
		"today's":        {saved, ""},
		"without format": {strings.Replace(saved, `"format":1,`, "", 1), ""},
		"unknown field":  {strings.Replace(saved, `"format":1,`, `"format":1,"new":{"a":[1]},`, 1), ""},
		"later":          {strings.Replace(saved, `"format":1,`, `"format":2,`, 1), "a later version of fastddl has written the checkpoint of job 77: it has format 2, this version reads up to 1"},
		"later, unlike":  {`{"format":2,"remaining":"all"}`, "a later version of fastddl"},
		"damaged":        {saved[:len(saved)/2], "the checkpoint of job 77 is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Checkpoint = []byte(c.checkpoint)
			var dropped []event.CheckpointDropped
			opts.Bus = &event.Bus{}
			opts.Bus.Subscribe(func(e event.Event) {
				if d, ok := e.(event.CheckpointDropped); ok {
					dropped = append(dropped, d)
				}
			})
			res, err := Run(f.Ctx, opts, spec)
			require.NoError(t, err)
			require.EqualValues(t, len(f.Rows), res.Rows)
			f.RequireIndex(idx, spec.TS, name)
			if c.dropped == "" {
				require.Empty(t, dropped)
				return
			}
			require.Len(t, dropped, 1)
			require.ErrorContains(t, dropped[0].Err, c.dropped)
			require.Equal(t, int64(77), dropped[0].JobID())
		})
	}
}
