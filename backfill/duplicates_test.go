package backfill

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/config"
	"fastddl/ingest"
)

// Rows with equal values lie far from each other: in ranges that two workers
// read side by side, in memory or in different runs.
func TestDuplicatesInDifferentRanges(t *testing.T) {
	const rows = 3000
	f := newDuplicatesFixture(t, rows)
	f.Put(10, -1)
	f.Put(rows-10, -1)
	f.Put(20, -2)
	f.Put(rows-20, -2)
	f.Put(40, -3)
	f.Put(rows/2, -3)
	f.Put(rows-30, -3)
	f.Put(50, nil)
	f.Put(rows-50, nil)
	for name, memory := range map[string]string{"in memory": "0", "in runs": "3MiB"} {
		t.Run(name, func(t *testing.T) {
			opts := f.options()
			opts.Globals = config.NewGlobals()
			set(t, opts.Globals, config.MemoryQuota, memory)
			opts.TaskBytes, opts.BatchRows, opts.MaxWorkers = 1, 64, 2
			var reading atomic.Int32
			together := make(chan struct{})
			meet := sync.OnceFunc(func() { close(together) })
			opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnScan: func(int64) error {
				if reading.Add(1) > 1 {
					meet()
				}
				defer reading.Add(-1)
				select { // so that there is something left to share
				case <-together:
				case <-time.After(time.Second):
				}
				return nil
			}}
			idx := backfilltest.IndexOn(9, true, 1)
			_, err := Run(f.Ctx, opts, f.spec(idx))
			requireHandles(t, err, [][]int64{{40, rows / 2, rows - 30}, {20, rows - 20}, {10, rows - 10}})
			select {
			case <-together:
			default:
				require.Fail(t, "one worker did it all")
			}
			f.RequireNoTempFiles()
			f.DropIndex(idx)
		})
	}
}

// The rows are imported by different flushes.
func TestDuplicatesInDifferentFlushes(t *testing.T) {
	const rows = 3000
	f := newDuplicatesFixture(t, rows)
	f.Put(rows-30, 40)
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval, opts.MaxWorkers = 64, time.Millisecond, 1
	opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnScan: func(int64) error { time.Sleep(time.Millisecond); return nil }}
	res, err := Run(f.Ctx, opts, f.spec(backfilltest.IndexOn(9, true, 1)))
	requireHandles(t, err, [][]int64{{40, rows - 30}})
	require.Greater(t, res.Flushes, 2)
	f.RequireNoTempFiles()
}

// newDuplicatesFixture is PlainTable with rows (i, i).
func newDuplicatesFixture(t *testing.T, rows int64) *fixture {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	for id := int64(1); id <= rows; id++ {
		f.Put(id, id)
	}
	return f
}

// requireHandles checks the handles of the groups of a DuplicateError.
func requireHandles(t *testing.T, err error, want [][]int64) {
	t.Helper()
	var dup *ingest.DuplicateError
	require.ErrorAs(t, err, &dup)
	var got [][]int64
	for _, g := range dup.Groups {
		require.EqualValues(t, len(g.Values), g.Rows)
		var handles []int64
		for _, v := range g.Values {
			h, err := tablecodec.DecodeHandleInIndexValue(v)
			require.NoError(t, err)
			handles = append(handles, h.IntValue())
		}
		got = append(got, handles)
	}
	require.Equal(t, want, got)
}
