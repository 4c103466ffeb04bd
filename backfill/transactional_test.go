package backfill

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/kv"
)

func TestTransactionalBuildsWhatTheLibraryWould(t *testing.T) {
	r := newRand(t)
	for range rounds(6) {
		table, idx, kinds := randomTable(r)
		idx.Unique = false
		f := newFixture(t, table, kinds)
		f.insert(r, 1+r.IntN(3000))
		spec := f.spec(idx)
		res, err := RunTransactional(f.ctx, f.options(), spec)
		require.NoError(t, err)
		require.EqualValues(t, len(f.rows), res.Rows)
		f.requireIndex(idx, f.ts(), describe(table, idx, kinds))
	}
}

// TestTransactionalAmongWrites: rows that change while the build runs keep
// their index right, whether the change comes before or after their batch, or
// between its reading and its commit.
func TestTransactionalAmongWrites(t *testing.T) {
	r := newRand(t)
	for range 1 + rounds(4) {
		table, idx, kinds := randomTable(r)
		idx.Unique = false
		f := newFixture(t, table, kinds)
		f.insert(r, 400)
		opts := f.options()
		opts.Globals = config.NewGlobals()
		set(t, opts.Globals, config.ReorgBatchSize, "32")
		opts.Bus = &event.Bus{}
		var mu sync.Mutex
		conflicts := 0
		opts.Bus.Subscribe(func(e event.Event) {
			if _, ok := e.(event.Retry); ok {
				mu.Lock()
				defer mu.Unlock()
				conflicts++
			}
		})
		spec := f.spec(idx)
		// The batch is read, and its transaction still open.
		opts.Store = &faultyStore{Store: f.store, onScan: func(n int64) error {
			mu.Lock()
			defer mu.Unlock()
			changes := 3
			if n == 1 {
				changes = len(f.rows) // rows of this batch are among them
			}
			for range changes {
				if n < 300 {
					f.mutateRetrying(r, idx)
				}
			}
			return nil
		}}
		_, err := RunTransactional(f.ctx, opts, spec)
		require.NoError(t, err)
		f.requireIndex(idx, f.ts(), describe(table, idx, kinds))
		if len(f.rows) > 50 {
			require.Positive(t, conflicts)
		}
	}
}

func TestTransactionalResumes(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	idx := indexOn(9, false, 2, 1)
	f := newFixture(t, table, kinds)
	f.insert(r, 3000)
	spec := f.spec(idx)

	var saved []byte
	for round := 0; ; round++ {
		require.Less(t, round, 100)
		store := &faultyStore{Store: f.store, onScan: func(n int64) error {
			if n == 40 {
				return errInjected
			}
			return nil
		}}
		opts := f.options()
		opts.Store, opts.Globals = store, config.NewGlobals()
		set(t, opts.Globals, config.ReorgBatchSize, "32")
		opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
			saved = slices.Clone(data)
			return nil
		}
		spec.Checkpoint = saved
		b, err := newBuild(opts, spec)
		require.NoError(t, err)
		b.transactionalInterval = 0 // a checkpoint after every batch
		require.NoError(t, b.join(f.ctx, true))
		err = b.runTransactional(f.ctx)
		b.share.Leave()
		if err == nil {
			require.Positive(t, round)
			break
		}
		require.ErrorIs(t, err, errInjected)
	}
	cp, err := decodeCheckpoint(saved, &spec)
	require.NoError(t, err)
	require.Empty(t, cp.Remaining)
	require.EqualValues(t, len(f.rows), cp.Rows)
	f.requireIndex(idx, f.ts(), describe(table, idx, kinds))
}

func TestTransactionalStopsWhenCancelled(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(r, 5000)
	ctx, cancel := context.WithCancel(f.ctx)
	opts := f.options()
	opts.Store = &faultyStore{Store: f.store, onScan: func(n int64) error {
		if n == 3 {
			cancel()
		}
		return nil
	}}
	_, err := RunTransactional(ctx, opts, f.spec(indexOn(9, false, 1)))
	require.ErrorIs(t, err, context.Canceled)
}

func TestEntriesThatAreThereAreNotConflicts(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	idx := indexOn(9, true, 1)
	f.put(1, 10)
	key, value, _ := libraryEntry(t, table, idx, f.rowWith(1).values, f.rowWith(1).handle)
	txn, err := f.store.Begin(f.ctx)
	require.NoError(t, err)
	require.NoError(t, txn.Set(key, value))
	require.NoError(t, txn.Commit(f.ctx))

	_, err = RunTransactional(f.ctx, f.options(), f.spec(idx))
	require.NoError(t, err)
	f.requireIndex(idx, f.ts(), "written by DML before")
	require.False(t, kv.IsWriteConflict(err))
}
