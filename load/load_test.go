package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/backfilltest"
	"fastddl/config"
	"fastddl/internal/errs"
	"fastddl/internal/randtest"
	store "fastddl/kv"
	"fastddl/lightning"
	"fastddl/load/rows"
)

// A load makes the rows and all index entries durable at its version, counts them, and has statistics of the indexes.
func TestLoad(t *testing.T) {
	r := randtest.Rand(t)
	for _, partitions := range []int{0, 1, 7} {
		f := newFixture(t, r, partitions, 3000)
		f.opts.Progress = new(Progress)
		result, err := f.run(f.Ctx)
		require.NoError(t, err)
		f.requireLoaded(result)
		require.Equal(t, f.source.Bytes(), result.SourceBytes)
		state := f.opts.Progress.Get()
		require.Equal(t, State{Stage: Verifying, StageDone: 1, Rows: 3000, Imported: 3000, SourceRead: 3000, SourceBytes: 3000}, state)
		require.EqualValues(t, 3000, rowsOf(result.Statistics[1]))
		require.EqualValues(t, 3000, rowsOf(result.Statistics[2]))
		if partitions == 0 {
			require.EqualValues(t, 3000, result.Statistics[2].Parts[f.Table.ID].Different)
		} else {
			require.Len(t, result.Statistics[1].Parts, partitions)
			require.EqualValues(t, 3000, result.Statistics[1].All.Rows)
		}
	}
}

// rowsOf is the number of rows that statistics have.
func rowsOf(s backfill.Statistics) (n int64) {
	for _, part := range s.Parts {
		n += part.Rows
	}
	return n
}

// A table without rows is loaded, too.
func TestLoadOfNothing(t *testing.T) {
	f := newFixture(t, randtest.Rand(t), 0, 0)
	result, err := f.run(f.Ctx)
	require.NoError(t, err)
	f.requireLoaded(result)
	require.NotNil(t, result.Statistics[1].Parts[f.Table.ID])
}

// Rows may be much longer than index entries.
func TestLoadOfLongRows(t *testing.T) {
	f := newFixture(t, randtest.Rand(t), 0, 50)
	for i := range f.source.files[0] {
		f.source.files[0][i] = f.source.files[0][i][:1] // no entries
	}
	f.source.files, f.Table.Indices = f.source.files[:1], nil
	for i, row := range f.source.files[0] {
		row[0].Val = append(make([]byte, 200_000*i), row[0].Val...)
	}
	result, err := f.run(f.Ctx)
	require.NoError(t, err)
	f.requireLoaded(result)
}

// Rows with equal keys fail a load with TiDB's error and the places of both, in one flush or in several, also if the rows are equal.
func TestDuplicateRows(t *testing.T) {
	r := randtest.Rand(t)
	for _, flushes := range []string{"one", "many"} {
		for _, c := range []struct {
			name, key string
			make      func(f *fixture, row fakeRow) fakeRow
		}{
			{"equal rows", "t.PRIMARY", func(_ *fixture, row fakeRow) fakeRow { return row }},
			{"equal primary keys", "t.PRIMARY", func(f *fixture, row fakeRow) fakeRow {
				handle, err := decodeHandle(row[0].Key)
				require.NoError(t, err)
				return f.randomRow(r, handle)
			}},
			{"equal values in a unique index", "t.i2", func(f *fixture, row fakeRow) fakeRow {
				other := f.randomRow(r, 2_000_000)
				other[2].Key = row[2].Key
				return other
			}},
		} {
			f := newFixture(t, r, 0, 400)
			if flushes == "many" {
				f.opts.CheckpointInterval, f.opts.BatchRows, f.opts.MaxWorkers = 1, 50, 1
			}
			first := f.source.files[0]
			require.NotEmpty(t, first)
			last := len(f.source.files) - 1
			f.source.files[last] = append(f.source.files[last], c.make(f, first[0]))
			_, err := f.run(f.Ctx)
			var duplicate *DuplicateError
			require.ErrorAs(t, err, &duplicate, "%s, %s", c.name, flushes)
			require.True(t, errors.Is(err, kv.ErrKeyExists))
			require.ErrorContains(t, err, "Duplicate entry")
			require.ErrorContains(t, err, c.key)
			require.Len(t, duplicate.Duplicates[0].Places, 2, "%v", err)
			f.RequireNoTempFiles()
		}
	}
}

// That duplicates cannot be looked up in the source does not hide the error.
func TestDuplicateRowsWithoutPlaces(t *testing.T) {
	f := newFixture(t, randtest.Rand(t), 0, 100)
	f.source.files[0] = append(f.source.files[0], f.source.files[len(f.source.files)-1]...)
	f.source.unread = true
	_, err := f.run(f.Ctx)
	require.True(t, errors.Is(err, kv.ErrKeyExists), "%v", err)
}

// Bad rows are listed in the order of the source, as many as are wanted, and nothing is imported.
func TestBadRows(t *testing.T) {
	r := randtest.Rand(t)
	for _, most := range []int{0, 1, 3, 1000} {
		f := newFixture(t, r, 0, 500)
		f.spec.MaxErrors = most
		bad := 0
		for _, file := range f.source.files {
			bad += (len(file) + 9) / 10
		}
		f.source.onNext = func(file string, i int64) error {
			if i%10 != 0 {
				return nil
			}
			return &rows.RowError{Place: rows.Place{File: file, Line: i + 1, Offset: i}, Column: "k", Err: types.ErrDataTooLong}
		}
		_, err := f.run(f.Ctx)
		var found *RowsError
		require.ErrorAs(t, err, &found)
		require.True(t, errors.Is(err, types.ErrDataTooLong))
		require.Len(t, found.Rows, min(max(1, most), bad))
		require.IsNonDecreasing(t, func() (at []string) {
			for _, e := range found.Rows {
				at = append(at, e.Place.File)
			}
			return at
		}())
		require.Empty(t, f.stored())
		f.RequireNoTempFiles()
	}
}

// A panic of a reader, or an error of it, is the error of the load.
func TestSourceThatFails(t *testing.T) {
	r := randtest.Rand(t)
	failed := errors.New("the file is gone")
	for _, fail := range []func() error{func() error { return failed }, func() error { panic(failed) }} {
		f := newFixture(t, r, 0, 500)
		var n atomic.Int64
		f.source.onNext = func(string, int64) error {
			if n.Add(1) == 300 {
				return fail()
			}
			return nil
		}
		_, err := f.run(f.Ctx)
		if panicked := (*errs.PanicError)(nil); errors.As(err, &panicked) {
			require.Equal(t, failed, panicked.Value)
		} else {
			require.ErrorIs(t, err, failed)
		}
		f.RequireNoTempFiles()
	}
}

// A load ends with the reason of its context.
func TestLoadIsCancelled(t *testing.T) {
	f := newFixture(t, randtest.Rand(t), 0, 500)
	killed := errors.New("killed")
	ctx, cancel := context.WithCancelCause(f.Ctx)
	f.source.onNext = func(string, int64) error {
		cancel(killed)
		return nil
	}
	_, err := f.run(ctx)
	require.ErrorIs(t, err, killed)
	f.RequireNoTempFiles()
}

// Entries that the store has lost, or was not given, fail the load.
func TestLostPairsFailTheLoad(t *testing.T) {
	r := randtest.Rand(t)
	for _, verify := range []string{config.VerifyAuto, config.VerifyFull} {
		f := newFixture(t, r, 0, 1000)
		f.spec.Verify = verify
		f.opts.Store = &backfilltest.FaultyStore{Store: f.Store, Skip: func(n int64) bool { return n == 500 }}
		_, err := f.run(f.Ctx)
		var mismatch *MismatchError
		if count := (*lightning.PairCountError)(nil); !errors.As(err, &count) {
			require.ErrorAs(t, err, &mismatch)
		}
	}
}

// A key that is not the table's is an error, not lost.
func TestForeignKeysFailTheLoad(t *testing.T) {
	f := newFixture(t, randtest.Rand(t), 0, 100)
	f.source.files[0] = append(f.source.files[0], fakeRow{{Key: []byte("t\x80\x00\x00\x00\x00\x00\x00\x63_r\x80\x00\x00\x00\x00\x00\x00\x01"), Val: []byte("x")}})
	_, err := f.run(f.Ctx)
	require.ErrorContains(t, err, "has no space for the key")
}

// A row without an entry of an index is missed, although sums agree.
func TestRowWithoutEntryFailsTheLoad(t *testing.T) {
	f := newFixture(t, randtest.Rand(t), 0, 100)
	last := len(f.source.files) - 1
	f.source.files[last] = append(f.source.files[last], f.randomRow(randtest.Rand(t), 3_000_000)[:2])
	_, err := f.run(f.Ctx)
	require.ErrorAs(t, err, new(*MismatchError))
}

// Rows that an import has left in the store when the process ended are deleted: they may be encoded with other generated keys when they
// are read again.
func TestInterruptedImportIsDeleted(t *testing.T) {
	r := randtest.Rand(t)
	for i, partitions := range []int{0, 3, 0, 3} {
		f := newFixture(t, r, partitions, 500)
		var imported atomic.Bool
		f.opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnImport: func(int64) error {
			imported.Store(true)
			return nil
		}}
		keep := f.opts.SaveCheckpoint
		f.opts.SaveCheckpoint = func(ctx context.Context, data []byte) error {
			if imported.Load() {
				return errors.New("the process ends")
			}
			return keep(ctx, data)
		}
		_, err := f.run(f.Ctx)
		require.ErrorContains(t, err, "the process ends")
		require.NotEmpty(t, f.stored())
		for i := range f.source.files {
			f.source.files[i] = f.source.files[i][:0]
		}
		f.addRows(r, 300)
		f.opts.SaveCheckpoint = keep
		if i >= 2 { // of a backup that was taken between the first checkpoint and the import
			f.saved = nil
		}
		result, err := f.run(f.Ctx)
		require.NoError(t, err)
		f.requireLoaded(result)
	}
}

// collect has garbage collection go as far as it may.
func (f *fixture) collect() error {
	now, err := f.Store.CurrentTS(f.Ctx)
	if err == nil {
		_, err = f.Store.CollectGarbage(f.Ctx, now)
	}
	return err
}

// A load of several imports takes one version. Garbage collection that runs at any moment does not pass it.
func TestGarbageCollectionDuringALoad(t *testing.T) {
	f := newFixture(t, randtest.Rand(t), 0, 500)
	f.opts.CheckpointInterval, f.opts.BatchRows, f.opts.MaxWorkers = 1, 50, 1
	f.source.onNext = func(_ string, i int64) error {
		if i%40 == 0 {
			return f.collect()
		}
		return nil
	}
	f.opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnImport: func(int64) error { return f.collect() }}
	result, err := f.run(f.Ctx)
	require.NoError(t, err)
	f.requireLoaded(result)
	require.Greater(t, result.Flushes, 2)
	holds, err := f.Store.GCHolds(f.Ctx)
	require.NoError(t, err)
	require.Empty(t, holds)
}

// A load that was interrupted for longer than versions are kept begins anew, at another version.
func TestGarbageCollectionBetweenRunsOfALoad(t *testing.T) {
	f := newFixture(t, randtest.Rand(t), 0, 500)
	f.opts.CheckpointInterval, f.opts.BatchRows, f.opts.MaxWorkers = 1, 50, 1
	keep, saved := f.opts.SaveCheckpoint, 0
	f.opts.SaveCheckpoint = func(ctx context.Context, data []byte) error {
		if saved++; saved > 4 {
			return errors.New("the process ends")
		}
		return keep(ctx, data)
	}
	_, err := f.run(f.Ctx)
	require.ErrorContains(t, err, "the process ends")
	require.NotEmpty(t, f.stored())
	require.NoError(t, f.collect())
	f.opts.SaveCheckpoint = keep
	result, err := f.run(f.Ctx)
	require.NoError(t, err)
	f.requireLoaded(result)
}

// A checkpoint of another table, or one that cannot be read, is not gone on with.
func TestForeignCheckpoint(t *testing.T) {
	r := randtest.Rand(t)
	for _, data := range []string{"{", `{"format":1,"table":99}`, `{"format":2}`} {
		f := newFixture(t, r, 0, 100)
		f.saved = []byte(data)
		result, err := f.run(f.Ctx)
		require.NoError(t, err)
		f.requireLoaded(result)
	}
}

// A load that is interrupted at any moment, and run again from its last checkpoint, ends as one that was not.
func TestLoadIsResumed(t *testing.T) {
	r := randtest.Rand(t)
	for end := time.Now().Add(randtest.Time(t, 2*time.Second, time.Minute)); time.Now().Before(end); {
		f := newFixture(t, r, []int{0, 0, 3, 40}[r.IntN(4)], 1+r.IntN(2000))
		f.opts.CheckpointInterval, f.opts.BatchRows = time.Duration(1+r.IntN(2_000_000)), 1+r.IntN(300)
		f.opts.MaxWorkers = 1 + r.IntN(4)
		f.opts.TargetFileBytes = uint64(1 + r.IntN(100_000))
		crash := fmt.Errorf("crash: %w", store.ErrClosed) // which is not tried again
		var result Result
		err := crash
		for runs := 0; errors.Is(err, crash); runs++ {
			var reads, imports, left atomic.Int64
			left.Store(1 << 60)
			if runs < 5 {
				left.Store(1 + r.Int64N(3000))
			}
			ctx, cancel := context.WithCancelCause(f.Ctx)
			cancels := r.IntN(2) == 0
			fail := func(cost int64) error {
				switch {
				case left.Add(-cost) >= 0:
				case cancels:
					cancel(crash)
				default:
					return crash
				}
				return nil
			}
			f.source.onNext = func(string, int64) error { reads.Add(1); return fail(1) }
			f.opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnImport: func(int64) error { imports.Add(1); return fail(500) }}
			f.opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
				if err := fail(200); err != nil {
					return err
				}
				f.saved = append([]byte(nil), data...)
				return nil
			}
			f.spec.Verify = []string{config.VerifyAuto, config.VerifyFull}[r.IntN(2)]
			result, err = f.run(ctx)
			cancel(nil)
			f.RequireNoTempFiles()
		}
		require.NoError(t, err)
		f.requireLoaded(result)
	}
}
