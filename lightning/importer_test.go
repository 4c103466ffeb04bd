package lightning_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/event"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/lightning"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errInjected = errors.New("injected")

// store counts and fails imports.
type store struct {
	kv.Store
	mu      sync.Mutex
	imports int
	fail    func(n int) error
}

func (s *store) Import(ctx context.Context, units []kv.ImportUnit) error {
	s.mu.Lock()
	s.imports++
	n := s.imports
	s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(n); err != nil {
			return err
		}
	}
	return s.Store.Import(ctx, units)
}

// quota is a lightning.Quota with a limit that is checked.
type quota struct {
	t       *testing.T
	limit   int64
	mu      sync.Mutex
	used    int64
	peak    int64
	changed chan struct{}
}

func newQuota(t *testing.T, limit int64) *quota {
	return &quota{t: t, limit: limit, changed: make(chan struct{})}
}

func (q *quota) TryAcquire(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used+n > q.limit {
		return false
	}
	q.used += n
	q.peak = max(q.peak, q.used)
	return true
}

func (q *quota) Acquire(ctx context.Context, n int64) error {
	for {
		q.mu.Lock()
		changed := q.changed
		q.mu.Unlock()
		if q.TryAcquire(n) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (q *quota) Overdraw(int64) { q.t.Error("a file grew beyond what was acquired for it") }

func (q *quota) Release(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
	close(q.changed)
	q.changed = make(chan struct{})
}

type fixture struct {
	ctx   context.Context
	store *store
	opts  lightning.Options
	dir   string
	bus   *event.Bus
	seen  []event.Event
}

func newFixture(t *testing.T) *fixture {
	s, err := pebblekv.Open(filepath.Join(t.TempDir(), "db"), pebblekv.Options{DisableSync: true, CacheBytes: 8 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	f := &fixture{ctx: context.Background(), store: &store{Store: s}, dir: t.TempDir(), bus: &event.Bus{}}
	f.bus.Subscribe(func(e event.Event) { f.seen = append(f.seen, e) })
	version, err := s.CurrentTS(f.ctx)
	require.NoError(t, err)
	f.opts = lightning.Options{
		Store: f.store, Dir: f.dir, Version: version, JobID: 7, Bus: f.bus,
		Backoff: func(int) time.Duration { return time.Millisecond },
	}
	return f
}

func (f *fixture) files(t *testing.T) int {
	entries, err := os.ReadDir(f.dir)
	require.NoError(t, err)
	return len(entries)
}

func key(i int) []byte { return fmt.Appendf(nil, "key-%08d", i) }

// write writes the pairs [from, to) through a writer of its own.
func write(ctx context.Context, im *lightning.Importer, from, to int) error {
	w := im.NewWriter(false)
	for i := from; i < to; i++ {
		if err := w.Add(ctx, key(i), fmt.Appendf(nil, "value %d", i)); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Finish(ctx)
}

func (f *fixture) requirePairs(t *testing.T, n int) {
	ts, err := f.store.CurrentTS(f.ctx)
	require.NoError(t, err)
	for _, at := range []uint64{f.opts.Version, ts} {
		snap, err := f.store.Snapshot(f.ctx, at)
		require.NoError(t, err)
		iter, err := snap.Iter(kv.KeyRange{})
		require.NoError(t, err)
		for i := range n {
			require.True(t, iter.Valid(), "pair %d", i)
			require.Equal(t, key(i), iter.Key())
			require.Equal(t, fmt.Sprintf("value %d", i), string(iter.Value()))
			require.NoError(t, iter.Next())
		}
		require.False(t, iter.Valid())
		require.NoError(t, iter.Close())
		require.NoError(t, snap.Close())
	}
}

func TestParallelWritersCutFilesAndImportThem(t *testing.T) {
	f := newFixture(t)
	f.opts.TargetFileBytes = 64 << 10
	q := newQuota(t, 1<<40)
	f.opts.Quota = q
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	const n, writers = 60_000, 3
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			if err := write(f.ctx, im, w*n/writers, (w+1)*n/writers); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Zero(t, f.store.imports, "nothing is imported before Flush")
	require.NoError(t, im.Flush(f.ctx))
	require.NoError(t, im.Close())

	stats := im.Stats()
	require.Greater(t, stats.Files, writers)
	require.EqualValues(t, n, stats.Pairs)
	require.Equal(t, 1, stats.Imports)
	require.Zero(t, q.used)
	require.Zero(t, f.files(t))
	f.requirePairs(t, n)
	ingested := f.seen[len(f.seen)-1].(event.Ingested)
	require.Equal(t, stats.Files, ingested.Files)
	require.Equal(t, stats.Bytes, ingested.Bytes)
}

func TestImportsInBatches(t *testing.T) {
	f := newFixture(t)
	f.opts.TargetFileBytes, f.opts.ImportBatchBytes = 16<<10, 64<<10
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	require.NoError(t, write(f.ctx, im, 0, 60_000))
	require.Greater(t, f.store.imports, 1)
	require.NoError(t, im.Flush(f.ctx))
	require.NoError(t, im.Close())
	f.requirePairs(t, 60_000)
}

// TestQuotaTooSmallForOneFile: files are cut and imported early, and writers
// that wait for each other come through.
func TestQuotaTooSmallForOneFile(t *testing.T) {
	f := newFixture(t)
	q := newQuota(t, 2<<20)
	f.opts.Quota = q
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	const n, writers = 240_000, 4
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			if err := write(f.ctx, im, w*n/writers, (w+1)*n/writers); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, im.Flush(f.ctx))
	require.NoError(t, im.Close())
	require.Greater(t, im.Stats().Imports, 1)
	require.LessOrEqual(t, q.peak, q.limit)
	require.Zero(t, q.used)
	f.requirePairs(t, n)
}

func TestFailedImportIsRetried(t *testing.T) {
	f := newFixture(t)
	f.store.fail = func(n int) error {
		if n < 3 {
			return errInjected
		}
		return nil
	}
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	require.NoError(t, write(f.ctx, im, 0, 100))
	require.NoError(t, im.Flush(f.ctx))
	require.NoError(t, im.Close())
	f.requirePairs(t, 100)
	require.Len(t, f.seen, 3)
	require.Equal(t, event.Retry{Job: event.Job{ID: 7}, Op: "import", Attempt: 2, Err: errInjected}, f.seen[1])
}

// A job that has been lost between two attempts does not try again.
func TestLostPermitEndsTheRetries(t *testing.T) {
	f := newFixture(t)
	var lost error
	f.store.fail = func(int) error {
		lost = errors.New("lost")
		return errInjected
	}
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	require.NoError(t, write(f.ctx, im, 0, 100))
	require.ErrorIs(t, im.Flush(kv.WithPermit(f.ctx, func() error { return lost })), lost)
	require.NoError(t, im.Close())
	require.Equal(t, 1, f.store.imports)
	require.Zero(t, f.files(t))
}

// fullStore has no room for a number of imports.
type fullStore struct {
	*store
	full  int
	asked []time.Time
}

func (s *fullStore) Import(context.Context, []kv.ImportUnit) error {
	s.asked = append(s.asked, time.Now())
	if len(s.asked) <= s.full {
		return fmt.Errorf("%w: store %d", kv.ErrDiskFull, len(s.asked))
	}
	return nil
}

// TestFullDiskIsWaitedFor: as long as it takes, with the files where they are, and ever less often:
// an attempt may leave something in the store.
func TestFullDiskIsWaitedFor(t *testing.T) {
	f := newFixture(t)
	full := &fullStore{store: f.store, full: 20}
	var reasons []string
	f.opts.Store, f.opts.MaxAttempts = full, 1
	f.opts.NoRoom = func(why error) { reasons = append(reasons, fmt.Sprint(why)) }
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	require.NoError(t, write(f.ctx, im, 0, 100))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, im.Flush(t.Context()))
		require.Len(t, full.asked, 21)
		for i, want := range []int{0, 1, 3, 7, 15, 31, 63, 123, 183} {
			require.Equal(t, time.Duration(want)*time.Second, full.asked[i].Sub(began))
		}
	})
	require.Equal(t, "kv: disk is full: store 1", reasons[0])
	require.Equal(t, "<nil>", reasons[20], "it is over")
	require.Len(t, reasons, 21)
	require.NoError(t, im.Close())
}

func TestCancelWhileTheDiskIsFull(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(f.ctx)
	reason := errors.New("the caller gave up")
	f.opts.NoRoom = func(why error) { reason = why; cancel() }
	f.store.fail = func(int) error { return kv.ErrDiskFull }
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	require.NoError(t, write(f.ctx, im, 0, 100))
	require.ErrorIs(t, im.Flush(ctx), context.Canceled)
	require.NoError(t, reason)
	require.NoError(t, im.Close())
	require.Zero(t, f.files(t))
}

func TestFailedImportLeavesNoFile(t *testing.T) {
	for name, fail := range map[string]struct {
		err      error
		attempts int
	}{
		"retryable": {errInjected, 3},
		"final":     {kv.ErrClosed, 1},
		"damaged":   {&kv.DamagedUnitError{File: "a", Err: errInjected}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			q := newQuota(t, 1<<30)
			f.opts.Quota, f.opts.MaxAttempts = q, 3
			f.store.fail = func(int) error { return fail.err }
			im, err := lightning.NewImporter(f.opts)
			require.NoError(t, err)
			require.NoError(t, write(f.ctx, im, 0, 100))
			require.ErrorIs(t, im.Flush(f.ctx), fail.err)
			require.NoError(t, im.Close())
			require.Equal(t, fail.attempts, f.store.imports)
			require.Zero(t, f.files(t))
			require.Zero(t, q.used)
		})
	}
}

func TestCancelInBackoff(t *testing.T) {
	f := newFixture(t)
	f.opts.Backoff = func(int) time.Duration { return time.Hour }
	ctx, cancel := context.WithCancel(f.ctx)
	f.store.fail = func(int) error { cancel(); return errInjected }
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	require.NoError(t, write(f.ctx, im, 0, 100))
	require.ErrorIs(t, im.Flush(ctx), context.Canceled)
	require.NoError(t, im.Close())
	require.Zero(t, f.files(t))
}

func TestAbandonedFilesAreRemoved(t *testing.T) {
	f := newFixture(t)
	q := newQuota(t, 1<<30)
	f.opts.Quota, f.opts.TargetFileBytes = q, 64<<10
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	w := im.NewWriter(false)
	for i := range 30_000 {
		require.NoError(t, w.Add(f.ctx, key(i), []byte("v")))
	}
	require.Greater(t, f.files(t), 1)
	require.NoError(t, w.Abort())
	require.NoError(t, w.Abort())
	require.NoError(t, im.Close())
	require.Zero(t, f.files(t))
	require.Zero(t, q.used)
	require.Zero(t, f.store.imports)
}

func TestWrongOrderIsAnError(t *testing.T) {
	f := newFixture(t)
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	w := im.NewWriter(false)
	require.NoError(t, w.Add(f.ctx, key(2), []byte("v")))
	require.Error(t, w.Add(f.ctx, key(1), []byte("v")))
	require.NoError(t, w.Abort())
	require.NoError(t, im.Close())
}

func TestNothingToImport(t *testing.T) {
	f := newFixture(t)
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	require.NoError(t, im.NewWriter(false).Finish(f.ctx))
	require.NoError(t, im.Flush(f.ctx))
	require.NoError(t, im.Close())
	require.Zero(t, f.store.imports)
}

func TestOptionsListEveryProblem(t *testing.T) {
	_, err := lightning.NewImporter(lightning.Options{MaxAttempts: -1})
	for _, text := range []string{"Store", "Dir", "Version", "MaxAttempts"} {
		require.ErrorContains(t, err, text)
	}
}

func TestPanicOfTheStoreIsAnError(t *testing.T) {
	f := newFixture(t)
	f.store.fail = func(int) error { panic("in the store") }
	im, err := lightning.NewImporter(f.opts)
	require.NoError(t, err)
	require.NoError(t, write(f.ctx, im, 0, 100))
	err = im.Flush(f.ctx)
	require.ErrorContains(t, err, "panic: in the store")
	require.False(t, lightning.Retryable(err))
	require.Equal(t, 1, f.store.imports)
	require.NoError(t, im.Close())
	require.Zero(t, f.files(t))
}

// What is to be done before an import is done before the first one; if it fails, nothing is imported and no file is left.
func TestBeforeImport(t *testing.T) {
	for _, fails := range []bool{false, true} {
		f := newFixture(t)
		f.opts.BeforeImport = func(context.Context) error {
			require.Zero(t, f.store.imports)
			if fails {
				return errInjected
			}
			return nil
		}
		im, err := lightning.NewImporter(f.opts)
		require.NoError(t, err)
		require.NoError(t, write(context.Background(), im, 0, 10))
		err = im.Flush(context.Background())
		if fails {
			require.ErrorIs(t, err, errInjected)
			require.Zero(t, f.store.imports)
		} else {
			require.NoError(t, err)
			f.requirePairs(t, 10)
		}
		require.NoError(t, im.Close())
		require.Zero(t, f.files(t))
	}
}
