package backfill

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// TestResumeFromEveryCheckpoint lets the process die in each part of a build, at
// a later point each time, and the build go on from the last checkpoint: nothing
// that was durable is scanned, imported or read back again.
func TestResumeFromEveryCheckpoint(t *testing.T) {
	r := backfilltest.Rand(t)
	for _, kind := range []string{"import", "scan", "checkpoint", "verify"} {
		t.Run(kind, func(t *testing.T) {
			table, kinds := backfilltest.PlainTable()
			idx := backfilltest.IndexOn(9, false, 2, 1)
			f := newFixture(t, table, kinds)
			f.Insert(r, 3000)
			spec := f.spec(idx)
			total := int64(len(f.Rows))
			var saved []byte
			failures, inVerify := 0, 0
			for fail := int64(1); ; fail++ {
				var before checkpoint
				if cp, err := decodeCheckpoint(saved, &spec.Task); err == nil && cp != nil {
					before = *cp
				}
				store := &backfilltest.FaultyStore{Store: f.Store}
				dead := new(atomic.Bool)
				opts := f.options()
				opts.Store, opts.BatchRows, opts.CheckpointInterval = store, 64, time.Millisecond
				opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
					if dead.Load() {
						return backfilltest.ErrInjected
					}
					saved = slices.Clone(data)
					return nil
				}
				dieIn(kind, fail, store, &opts, dead)
				spec.Checkpoint = saved
				res, err := Run(f.Ctx, opts, spec)
				f.RequireNoTempFiles()
				require.LessOrEqual(t, store.Rows.Load(), total-before.Rows, "rows are scanned again")
				require.LessOrEqual(t, store.Entries.Load(), total-before.verified(), "entries are read back again")
				require.GreaterOrEqual(t, res.Rows, before.Rows, "progress that was durable is lost")
				if before.Rows == total {
					require.Zero(t, store.Imports.Load())
				}
				if before.verified() > 0 {
					inVerify++
				}
				if err == nil {
					require.Equal(t, total-before.Rows, store.Rows.Load())
					require.Equal(t, total-before.verified(), store.Entries.Load())
					require.EqualValues(t, total, res.Entries)
					break
				}
				failures++
				require.Less(t, failures, 1000)
				if !errors.Is(err, kv.ErrClosed) {
					require.ErrorIs(t, err, backfilltest.ErrInjected)
				}
			}
			require.Greater(t, failures, 2)
			if kind == "verify" {
				require.Greater(t, inVerify, 1)
			}
			f.RequireIndex(idx, spec.TS, backfilltest.Describe(table, idx, kinds))
		})
	}
}

// verified is how many entries have been read back.
func (c *checkpoint) verified() (n int64) {
	if c.Verify != nil {
		for _, t := range c.Verify.Totals {
			n += t.Entries
		}
	}
	return n
}

// dieIn makes a build fail in one of its parts, and every checkpoint from then on.
// It dies a little later every time, up to a few operations.
func dieIn(kind string, fail int64, store *backfilltest.FaultyStore, opts *Options, dead *atomic.Bool) {
	die := func(n, at int64) error {
		if n != at {
			return nil
		}
		dead.Store(true)
		return backfilltest.ErrInjected
	}
	at := (fail-1)%5 + 1
	store.OnScan = func(n int64) error {
		time.Sleep(time.Millisecond) // so that the checkpoint interval passes
		if kind == "scan" {
			return die(n, at)
		}
		return nil
	}
	switch kind {
	case "import":
		// An import that fails once is retried; a closed store is not.
		store.OnImport = func(n int64) error {
			if die(n, at) != nil {
				return kv.ErrClosed
			}
			return nil
		}
	case "checkpoint":
		saves, save := int64(0), opts.SaveCheckpoint
		opts.SaveCheckpoint = func(ctx context.Context, data []byte) error {
			saves++
			if err := die(saves, at); err != nil {
				return err
			}
			return save(ctx, data)
		}
	case "verify":
		store.OnRead = func(n int64) error {
			if n%20 == 0 {
				time.Sleep(200 * time.Microsecond)
			}
			return die(n, at*200)
		}
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(30_000)
	idx := backfilltest.IndexOn(9, false, 2)
	cancelled := 0
	for i := range 1 + backfilltest.Rounds(24) {
		opts := f.options()
		opts.Globals = smallMemory(t)
		opts.Resources = ingest.NewResources(opts.Globals, 0)
		if r.IntN(2) == 0 {
			opts.CheckpointInterval = time.Duration(1 + r.IntN(20_000_000))
		}
		if r.IntN(3) == 0 {
			set(t, opts.Globals, config.ReorgMaxWriteSpeed, "1000") // it would go on for many minutes
		}
		patience := time.Duration(r.IntN(120)) * time.Millisecond
		if i == 0 {
			patience = 0
		}
		ctx, cancel := context.WithTimeout(f.Ctx, patience)
		_, err := Run(ctx, opts, f.spec(idx))
		deadline, _ := ctx.Deadline()
		require.Less(t, time.Since(deadline), time.Minute)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancelled++
		}
		f.RequireNoTempFiles()
		require.Zero(t, opts.Resources.Usage().Jobs)
		require.Zero(t, opts.Resources.Usage().MemoryBytes)
		require.Zero(t, opts.Resources.Usage().TempBytes)
	}
	require.Positive(t, cancelled)
}

// TestPauseKeepsWhatIsVerified: a build that is stopped while it reads the index
// back goes on there, however long the time between checkpoints is.
func TestPauseKeepsWhatIsVerified(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 3000)
	idx, second := backfilltest.IndexOn(9, false, 2), backfilltest.IndexOn(10, false, 1)
	spec := f.spec(idx, second)
	total := int64(2 * len(f.Rows))

	ctx, pause := context.WithCancelCause(f.Ctx)
	store := &backfilltest.FaultyStore{Store: f.Store}
	store.OnRead = func(n int64) error {
		if n == total*3/4 {
			pause(backfilltest.ErrInjected)
			return ctx.Err()
		}
		return nil
	}
	opts := f.options()
	opts.Store = store
	opts.SaveCheckpoint = func(ctx context.Context, data []byte) error {
		spec.Checkpoint = slices.Clone(data)
		return ctx.Err()
	}
	_, err := Run(ctx, opts, spec)
	require.ErrorIs(t, err, backfilltest.ErrInjected)
	cp, err := decodeCheckpoint(spec.Checkpoint, &spec.Task)
	require.NoError(t, err)
	require.Empty(t, cp.Remaining)
	require.Greater(t, cp.verified(), total/4)

	store = &backfilltest.FaultyStore{Store: f.Store}
	opts.Store = store
	res, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.Equal(t, total, res.Entries)
	require.Zero(t, store.Rows.Load())
	require.Equal(t, total-cp.verified(), store.Entries.Load())
}

// TestRebuildingSurvivesACrash: that an index was found wrong is not forgotten,
// and it is not built a third time.
func TestRebuildingSurvivesACrash(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 2000)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	count := int64(len(f.Rows))
	store := &backfilltest.FaultyStore{Store: f.Store, Skip: func(n int64) bool { return n%count == 70 }}
	opts := f.options()
	opts.Store = store
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		spec.Checkpoint = slices.Clone(data)
		return nil
	}
	store.OnScan = func(int64) error {
		if store.Rows.Load() >= count {
			return backfilltest.ErrInjected // in the second build
		}
		return nil
	}
	_, err := Run(f.Ctx, opts, spec)
	require.ErrorIs(t, err, backfilltest.ErrInjected)

	store.OnScan = nil
	store.Rows.Store(0)
	store.Pairs.Store(0)
	_, err = Run(f.Ctx, opts, spec)
	require.ErrorContains(t, err, "after rebuilding once")
	require.Equal(t, count, store.Rows.Load())
}

// TestScannerPanics: what a worker held that panicked is given back like that of one that
// failed, or other jobs would have to do without it. The job asserts that at its end.
func TestScannerPanics(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 2000)
	opts := f.options()
	opts.BatchRows = 64
	opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnScan: func(n int64) error {
		if n == 5 {
			panic("injected panic")
		}
		return nil
	}}
	_, err := Run(f.Ctx, opts, f.spec(backfilltest.IndexOn(9, false, 1)))
	var panicked *errs.PanicError
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, "injected panic", panicked.Value)
	f.RequireNoTempFiles()
}

// TestCheckpointIntervalIsFollowed lowers the time between checkpoints while a
// build scans.
func TestCheckpointIntervalIsFollowed(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(20_000)
	idx := backfilltest.IndexOn(9, false, 1)
	opts := f.options()
	opts.Globals, opts.BatchRows, opts.MaxWorkers = config.NewGlobals(), 100, 1
	first := true
	opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnScan: func(int64) error {
		if first {
			first = false
			set(t, opts.Globals, config.CheckpointInterval, "1s")
		}
		time.Sleep(10 * time.Millisecond)
		return nil
	}}
	res, err := Run(f.Ctx, opts, f.spec(idx))
	require.NoError(t, err)
	require.GreaterOrEqual(t, res.Flushes, 2)
}

func TestDamageIsRepairedOnceAndThenReported(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 2000)
	for _, verify := range []string{config.VerifyAuto, config.VerifyFull} {
		f.requireDamageIsRepairedOnce(t, verify)
	}
}

func (f *fixture) requireDamageIsRepairedOnce(t *testing.T, verify string) {
	idx := backfilltest.IndexOn(9, false, 1)
	store := &backfilltest.FaultyStore{Store: f.Store}
	opts := f.options()
	opts.Store = &backfilltest.CountingScans{Store: store}
	var retries []event.Retry
	opts.Bus = &event.Bus{}
	opts.Bus.Subscribe(func(e event.Event) {
		if retry, ok := e.(event.Retry); ok {
			retries = append(retries, retry)
		}
	})
	count := int64(len(f.Rows))
	store.Skip = func(n int64) bool { return n == 70 }
	spec := f.spec(idx)
	spec.Verify = verify
	res, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.True(t, res.Rebuilt)
	require.Len(t, retries, 1)
	require.Equal(t, count, res.Entries)
	f.RequireIndex(idx, spec.TS, "rebuilt")

	f.DropIndex(idx)
	store.Pairs.Store(0)
	store.Skip = func(n int64) bool { return n%count == 70 }
	spec = f.spec(idx)
	spec.Verify = verify
	_, err = Run(f.Ctx, opts, spec)
	var mismatch *MismatchError
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "after rebuilding once")
	require.Equal(t, mismatch.Want.Entries, mismatch.Got.Entries+1)
	f.RequireNoTempFiles()
	f.DropIndex(idx)
}

// TestDamagedFilesAreBuiltAgainOnce: what was not imported can be. What the store has taken in instead of a file stays, so
// the build has failed.
func TestDamagedFilesAreBuiltAgainOnce(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 500)
	idx := backfilltest.IndexOn(9, false, 1)
	store := &backfilltest.FaultyStore{Store: f.Store}
	opts := f.options()
	opts.Store = store
	spec := f.spec(idx)
	run := func(damaged func(n int64) error) (Result, error) {
		store.Imports.Store(0)
		store.OnImport = damaged
		return Run(f.Ctx, opts, spec)
	}
	damage := &kv.DamagedUnitError{File: "import-1.sst", Err: backfilltest.ErrInjected}
	res, err := run(func(n int64) error {
		if n == 1 {
			return damage
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, res.Rebuilt)
	require.Equal(t, int64(len(f.Rows)), res.Entries)
	f.RequireIndex(idx, spec.TS, "rebuilt")

	f.DropIndex(idx)
	_, err = run(func(int64) error { return damage })
	require.ErrorIs(t, err, damage)
	require.ErrorContains(t, err, "after rebuilding once")
	require.EqualValues(t, 2, store.Imports.Load())

	taken := &kv.DamagedUnitError{File: "import-1.sst", Imported: true, Err: backfilltest.ErrInjected}
	res, err = run(func(int64) error { return taken })
	require.ErrorIs(t, err, taken)
	require.False(t, res.Rebuilt)
	require.EqualValues(t, 1, store.Imports.Load())
	f.RequireNoTempFiles()
}

func TestForeignEntryIsReported(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 100)
	idx := backfilltest.IndexOn(9, false, 1)
	var c backfilltest.Changes
	c.Put(append(encode.IndexPrefix(table.ID, idx.ID), 3, 1), []byte("0"))
	f.Commit(c)

	for _, verify := range []string{config.VerifyAuto, config.VerifyFull} {
		opts, spec := f.options(), f.spec(idx)
		opts.Store, spec.Verify = &backfilltest.CountingScans{Store: f.Store}, verify
		var mismatch *MismatchError
		_, err := Run(f.Ctx, opts, spec)
		require.ErrorAs(t, err, &mismatch)
		require.EqualValues(t, len(f.Rows)+1, mismatch.Got.Entries)
	}
}

// What an older snapshot has left in a unique index is for the comparison to find. Nothing
// else is, and only if there is one.
func TestLeftoversAreAccepted(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 100)
	for i, c := range []struct{ unique, compared, leftovers, accepted bool }{
		{true, true, true, true}, {true, true, false, false}, {true, false, true, false}, {false, true, true, false},
	} {
		idx := backfilltest.IndexOn(int64(10+i), c.unique, 0)
		var left backfilltest.Changes
		left.Put(append(encode.IndexPrefix(table.ID, idx.ID), 3, 1), []byte("0"))
		f.Commit(left)
		spec := f.spec(idx)
		spec.Compared, spec.Leftovers = c.compared, c.leftovers
		res, err := Run(f.Ctx, f.options(), spec)
		if !c.accepted {
			require.ErrorAs(t, err, new(*MismatchError), "%+v", c)
			continue
		}
		require.NoError(t, err)
		require.False(t, res.Rebuilt)
		found := f.compare(idx).Differences
		require.Len(t, found, 1)
		require.Empty(t, found[0].Claims)
	}
}
