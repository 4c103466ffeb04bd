package backfill

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
)

type faultyStore struct {
	kv.Store
	onImport func(n int64) error // before the n-th import
	onScan   func(n int64) error // before the n-th batch
	skip     func(n int64) bool  // leaves the n-th imported pair out
	imports  atomic.Int64
	batches  atomic.Int64
	pairs    atomic.Int64
}

func (s *faultyStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	if s.onImport != nil {
		if err := s.onImport(s.imports.Add(1)); err != nil {
			return err
		}
	}
	return s.Store.Import(ctx, units)
}

func (s *faultyStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		if s.onScan != nil {
			if err := s.onScan(s.batches.Add(1)); err != nil {
				return err
			}
		}
		return fn(b)
	})
}

func (s *faultyStore) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	w, err := s.Store.NewImportWriter(ctx, opts)
	if err != nil || s.skip == nil {
		return w, err
	}
	return &skippingWriter{w, s}, nil
}

type skippingWriter struct {
	kv.ImportWriter
	s *faultyStore
}

func (w *skippingWriter) Add(key, value []byte) error {
	if w.s.skip(w.s.pairs.Add(1)) {
		return nil
	}
	return w.ImportWriter.Add(key, value)
}

var errInjected = errors.New("injected")

func TestResumeFromEveryCheckpoint(t *testing.T) {
	r := newRand(t)
	for _, kind := range []string{"import", "scan", "checkpoint"} {
		t.Run(kind, func(t *testing.T) {
			table, kinds := plainTable()
			idx := indexOn(9, false, 2, 1)
			f := newFixture(t, table, kinds)
			f.insert(r, 3000)
			spec := f.spec(idx)
			failures := 0
			var saved []byte
			var lastRows int64
			for fail := int64(1); ; fail++ {
				store := &faultyStore{Store: f.store}
				failing := func(n int64) error {
					if n == (fail-1)%5+1 {
						return errInjected
					}
					return nil
				}
				store.onScan = func(int64) error {
					time.Sleep(time.Millisecond) // so that the checkpoint interval passes
					return nil
				}
				opts := f.options()
				opts.Store, opts.BatchRows, opts.CheckpointInterval = store, 64, time.Millisecond
				saves := int64(0)
				opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
					if saves++; kind == "checkpoint" {
						if err := failing(saves); err != nil {
							return err
						}
					}
					saved = slices.Clone(data)
					return nil
				}
				switch kind {
				case "import":
					// An import that fails once is retried; a closed store is not.
					store.onImport = func(n int64) error {
						if failing(n) != nil {
							return kv.ErrClosed
						}
						return nil
					}
				case "scan":
					store.onScan = func(n int64) error {
						time.Sleep(time.Millisecond)
						return failing(n)
					}
				}
				spec.Checkpoint = saved
				res, err := Run(f.ctx, opts, spec)
				f.requireNoTempFiles()
				require.GreaterOrEqual(t, res.Rows, lastRows, "progress that was durable is lost")
				if cp, err := decodeCheckpoint(saved, &spec); err == nil && cp != nil {
					lastRows = cp.Rows
				}
				if err == nil {
					require.EqualValues(t, len(f.rows), res.Entries)
					break
				}
				failures++
				require.Less(t, failures, 1000)
				if !errors.Is(err, kv.ErrClosed) {
					require.ErrorIs(t, err, errInjected)
				}
			}
			require.Positive(t, failures)
			f.requireIndex(idx, spec.TS, describe(table, idx, kinds))
		})
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(30_000)
	idx := indexOn(9, false, 2)
	cancelled := 0
	for range 1 + rounds(24) {
		opts := f.options()
		opts.Globals = smallMemory(t)
		opts.Resources = ingest.NewResources(opts.Globals)
		if r.IntN(2) == 0 {
			opts.CheckpointInterval = time.Duration(1 + r.IntN(20_000_000))
		}
		if r.IntN(3) == 0 {
			set(t, opts.Globals, config.ReorgMaxWriteSpeed, "100000")
		}
		ctx, cancel := context.WithTimeout(f.ctx, time.Duration(r.IntN(120))*time.Millisecond)
		_, err := Run(ctx, opts, f.spec(idx))
		deadline, _ := ctx.Deadline()
		require.Less(t, time.Since(deadline), time.Second)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancelled++
		}
		f.requireNoTempFiles()
		require.Zero(t, opts.Resources.Usage().Jobs)
		require.Zero(t, opts.Resources.Usage().MemoryBytes)
		require.Zero(t, opts.Resources.Usage().TempBytes)
	}
	require.Positive(t, cancelled)
}

func TestDamageIsRepairedOnceAndThenReported(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(r, 2000)
	idx := indexOn(9, false, 1)

	store := &faultyStore{Store: f.store}
	opts := f.options()
	opts.Store = store
	var retries []event.Retry
	opts.Bus = &event.Bus{}
	opts.Bus.Subscribe(func(e event.Event) {
		if retry, ok := e.(event.Retry); ok {
			retries = append(retries, retry)
		}
	})
	count := int64(len(f.rows))
	store.skip = func(n int64) bool { return n == 70 }
	spec := f.spec(idx)
	res, err := Run(f.ctx, opts, spec)
	require.NoError(t, err)
	require.True(t, res.Rebuilt)
	require.Len(t, retries, 1)
	require.Equal(t, count, res.Entries)
	f.requireIndex(idx, spec.TS, "rebuilt")

	f.dropIndex(idx)
	store.pairs.Store(0)
	store.skip = func(n int64) bool { return n%count == 70 }
	_, err = Run(f.ctx, opts, f.spec(idx))
	var mismatch *MismatchError
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "after rebuilding once")
	require.Equal(t, mismatch.Want.Entries, mismatch.Got.Entries+1)
	f.requireNoTempFiles()
}

func TestForeignEntryIsReported(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(r, 100)
	idx := indexOn(9, false, 1)
	txn, err := f.store.Begin(f.ctx)
	require.NoError(t, err)
	require.NoError(t, txn.Set(append(indexPrefix(table.ID, idx.ID), 3, 1), []byte("0")))
	require.NoError(t, txn.Commit(f.ctx))

	var mismatch *MismatchError
	_, err = Run(f.ctx, f.options(), f.spec(idx))
	require.ErrorAs(t, err, &mismatch)
	require.EqualValues(t, len(f.rows)+1, mismatch.Got.Entries)
}
