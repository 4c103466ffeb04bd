package backfill

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/ingest"
)

func TestConcurrentWritesShadowTheBuild(t *testing.T) {
	r := backfilltest.Rand(t)
	table, idx, kinds := backfilltest.RandomTable(r)
	idx.Unique = false
	f := newFixture(t, table, kinds)
	rows := 4000
	if testing.Short() {
		rows = 1000
	}
	f.Insert(r, rows)
	spec := f.spec(idx)
	atS := backfilltest.CloneRows(f.Rows)

	// The first writes come before the build, the others while it runs.
	done := make(chan struct{})
	var wg sync.WaitGroup
	f.Mutate(r, 300, idx)
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				f.Mutate(r, 20, idx)
			}
		}
	})
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval = 32, 3*time.Millisecond
	_, err := Run(f.Ctx, opts, spec)
	close(done)
	wg.Wait()
	require.NoError(t, err)

	after := f.TS()
	f.RequireIndex(idx, after, "after the build")
	f.Rows = atS
	f.RequireIndex(idx, spec.TS, "at S")
}

func TestUniqueIndex(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	idx := backfilltest.IndexOn(9, true, 1)
	f.Put(1, 10)
	f.Put(2, nil) // NULLs are not equal
	f.Put(3, nil)
	f.Put(4, 11)
	spec := f.spec(idx)
	_, err := Run(f.Ctx, f.options(), spec)
	require.NoError(t, err)
	f.RequireIndex(idx, spec.TS, "unique")

	f.DropIndex(idx)
	f.Put(5, 11)
	requireDuplicate := func(err error) {
		t.Helper()
		var dup *ingest.DuplicateError
		require.ErrorAs(t, err, &dup)
		require.Len(t, dup.Groups, 1)
		group := dup.Groups[0]
		require.EqualValues(t, 9, group.IndexID)
		key, value, _ := backfilltest.LibraryEntry(t, table, idx, f.RowWith(4).Values, f.RowWith(4).Handle)
		require.Equal(t, []byte(key), group.Key)
		require.EqualValues(t, 2, group.Rows)
		require.Len(t, group.Values, 2)
		require.Contains(t, group.Values, value)
		require.NotEqual(t, group.Values[0], group.Values[1])
		f.RequireNoTempFiles()
	}
	_, err = Run(f.Ctx, f.options(), f.spec(idx))
	requireDuplicate(err)
	f.DropIndex(idx)

	// The two rows come with different imports.
	for id := int64(6); id < 2000; id++ {
		f.Put(id, id+1000)
	}
	f.Put(5000, 11)
	f.Put(5, 12)
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval, opts.MaxWorkers = 64, time.Millisecond, 1
	store := &backfilltest.FaultyStore{Store: f.Store, OnScan: func(int64) error { time.Sleep(time.Millisecond); return nil }}
	opts.Store = store
	res, err := Run(f.Ctx, opts, f.spec(idx))
	requireDuplicate(err)
	require.Greater(t, res.Flushes, 2)
}
