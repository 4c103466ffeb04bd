package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

type jobFixture struct {
	ctx     context.Context
	store   kv.Store
	globals *config.Globals
	all     *Resources
	opts    JobOptions
}

func newJobFixture(t *testing.T, indexes ...KeySpace) *jobFixture {
	s, err := pebblekv.Open(filepath.Join(t.TempDir(), "db"), pebblekv.Options{DisableSync: true, CacheBytes: 8 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	f := &jobFixture{ctx: context.Background(), store: s, globals: config.NewGlobals()}
	version, err := s.CurrentTS(f.ctx)
	require.NoError(t, err)
	f.all = NewResources(f.globals, 0)
	bus := new(event.Bus)
	share, err := f.all.Join(f.ctx, ShareOptions{JobID: 3, Indexes: len(indexes), Bus: bus})
	require.NoError(t, err)
	t.Cleanup(share.Leave)
	f.opts = JobOptions{ID: 3, Store: s, TempDir: t.TempDir(), Version: version, Indexes: indexes, Share: share, Bus: bus}
	return f
}

func (f *jobFixture) read(t *testing.T, prefix string) []pair {
	ts, err := f.store.CurrentTS(f.ctx)
	require.NoError(t, err)
	snap, err := f.store.Snapshot(f.ctx, ts)
	require.NoError(t, err)
	defer snap.Close()
	iter, err := snap.Iter(kv.PrefixRange([]byte(prefix)))
	require.NoError(t, err)
	defer iter.Close()
	var got []pair
	for iter.Valid() {
		got = append(got, pair{bytes.Clone(iter.Key()), bytes.Clone(iter.Value())})
		require.NoError(t, iter.Next())
	}
	return got
}

func (f *jobFixture) requireClean(t *testing.T) {
	left, err := os.ReadDir(f.opts.TempDir)
	require.NoError(t, err)
	require.Empty(t, left)
	u := f.all.Usage()
	require.Zero(t, u.MemoryBytes)
	require.Zero(t, u.TempBytes)
}

// fullOnce is a store that has no room the first time, and notes what the job waits for then.
type fullOnce struct {
	kv.Store
	all   *Resources
	waits []string
}

func (s *fullOnce) Import(ctx context.Context, units []kv.ImportUnit) error {
	s.waits = append(s.waits, s.all.Allocation(3).Wait)
	if len(s.waits) == 1 {
		return fmt.Errorf("%w: store 1", kv.ErrDiskFull)
	}
	return s.Store.Import(ctx, units)
}

// TestFullStoreIsWaitedFor: what was sorted is imported when there is room.
func TestFullStoreIsWaitedFor(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")})
	full := &fullOnce{Store: f.store, all: f.all}
	f.opts.Store = full
	job, err := Open(f.opts)
	require.NoError(t, err)
	w := job.NewWorker(nil)
	key := intKey(1, 0)
	require.NoError(t, w.Append(0, append(key, 'v'), len(key)))
	w.Finish()
	require.NoError(t, job.Flush(f.ctx))
	require.Equal(t, []string{"", "disk space: kv: disk is full: store 1"}, full.waits)
	require.Empty(t, f.all.Allocation(3).Wait)
	require.Len(t, f.read(t, "a/"), 1)
	require.NoError(t, job.Close())
	f.requireClean(t)
}

// TestJobSortsAndImports lets several workers append to two indexes, with
// little memory, so that memory and runs take part, and with a
// flush whenever the job asks for one.
func TestJobSortsAndImports(t *testing.T) {
	for name, tune := range map[string]func(f *jobFixture){
		"in memory":     func(*jobFixture) {},
		"many runs":     func(f *jobFixture) { set(t, f.globals, config.MemoryQuota, "1") },
		"several times": func(f *jobFixture) { set(t, f.globals, config.MemoryQuota, "1"); f.opts.MaxRuns = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")}, KeySpace{ID: 2, Prefix: []byte("b/"), Unique: true})
			tune(f)
			job, err := Open(f.opts)
			require.NoError(t, err)

			const workers = 3
			each := 60_000
			if testing.Short() && name == "in memory" { // the others need so many to spill
				each = 20_000
			}
			var want [2]Totals
			seeds := newRand(t).Uint64()
			var samples [2][][]byte
			for i := range uint64(500) {
				samples[0] = append(samples[0], intKey(2*i, 0))
				samples[1] = append(samples[1], intKey(i*workers*uint64(each)/500, 0))
			}
			for k := range samples {
				job.Partition(k, samples[k])
			}
			left := [workers]int{each, each, each}
			flushes := 0
			for done := false; !done; flushes++ {
				var wg sync.WaitGroup
				for n := range workers {
					wg.Go(func() {
						w := job.NewWorker(nil)
						defer w.Finish()
						for left[n] > 0 {
							for range min(1000, left[n]) {
								left[n]--
								i := uint64(n*each + left[n])
								r := rand.New(rand.NewPCG(seeds, i))
								for k, key := range [][]byte{intKey(r.Uint64N(1000), i), intKey(i, 0)} {
									if err := w.Append(k, append(key, 'v'), len(key)); err != nil {
										t.Error(err)
									}
								}
							}
							full, err := w.EndBatch(f.ctx)
							if err != nil {
								t.Error(err)
							}
							if full || err != nil {
								return
							}
						}
					})
				}
				wg.Wait()
				require.NoError(t, job.Flush(f.ctx))
				require.InEpsilon(t, job.flushing.Load(), job.flushed.Load(), 0.001, "a flush ends when its progress is all")
				require.False(t, job.NeedsFlush())
				done = left == [workers]int{}
			}
			for i := range workers * each {
				r := rand.New(rand.NewPCG(seeds, uint64(i)))
				for k, key := range [][]byte{intKey(r.Uint64N(1000), uint64(i)), intKey(uint64(i), 0)} {
					want[k].AddEntry(append(key, 'v'), len(key))
				}
			}
			for k, prefix := range []string{"a/", "b/"} {
				require.Equal(t, want[k], job.Totals(k))
				var got Totals
				for _, p := range f.read(t, prefix) {
					key := p.key[len(prefix):]
					got.AddEntry(concat(key, p.value), len(key))
				}
				require.Equal(t, want[k], got)
			}
			stats := job.Stats()
			require.EqualValues(t, 2*workers*each, stats.Pairs)
			require.Equal(t, name == "several times", flushes > 1)
			require.Equal(t, name != "in memory", job.runSeq.Load() > 0)
			require.NoError(t, job.Close())
			f.requireClean(t)
		})
	}
}

// overlapStore records the Overlaps option of each import writer.
type overlapStore struct {
	kv.Store
	overlaps []bool
}

func (s *overlapStore) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	s.overlaps = append(s.overlaps, opts.Overlaps)
	return s.Store.NewImportWriter(ctx, opts)
}

// TestLaterFlushesOverlap: files of a job's first flush overlap no others in the store. Files of
// later flushes, and of a subtask, may.
func TestLaterFlushesOverlap(t *testing.T) {
	for _, isPart := range []bool{false, true} {
		f := newJobFixture(t, KeySpace{ID: 8, Prefix: []byte("i/")})
		store := &overlapStore{Store: f.store}
		f.opts.Store, f.opts.IsPart, f.opts.Parallel = store, isPart, func() int { return 1 }
		job, err := Open(f.opts)
		require.NoError(t, err)
		for i := range 2 {
			w := job.NewWorker(nil)
			require.NoError(t, w.Append(0, fmt.Appendf(nil, "a%d", i), 1))
			w.Finish()
			require.NoError(t, job.Flush(f.ctx))
		}
		require.Equal(t, []bool{isPart, true}, store.overlaps)
		require.NoError(t, job.Close())
	}
}

func TestDuplicatesAreFoundAcrossFlushes(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 8, Prefix: []byte("u/"), Unique: true})
	job, err := Open(f.opts)
	require.NoError(t, err)
	add := func(pairs ...string) error {
		w := job.NewWorker(nil)
		for _, p := range pairs {
			require.NoError(t, w.Append(0, []byte(p), 1))
		}
		w.Finish()
		return job.Flush(f.ctx)
	}
	require.NoError(t, add("a1", "c3"))
	require.NoError(t, add("b2", "a1"), "the same entry again, as after a crash")
	require.NoError(t, add("d4"))
	err = add("e5", "c9")
	var dup *DuplicateError
	require.ErrorAs(t, err, &dup)
	require.Equal(t, &DuplicateError{Groups: []*DuplicateGroup{
		{IndexID: 8, Key: []byte("u/c"), Rows: 2, Values: [][]byte{[]byte("3"), []byte("9")}},
	}}, dup)
	require.NoError(t, job.Close())
	f.requireClean(t)

	// A job that was opened again is told that the store has entries.
	f.opts.Indexes[0].Imported = true
	job, err = Open(f.opts)
	require.NoError(t, err)
	require.ErrorAs(t, add("d5"), &dup)
	require.NoError(t, job.Close())
}

func TestOpenRemovesWhatACrashLeft(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")})
	left := filepath.Join(JobDir(f.opts.TempDir, f.opts.ID), "1-1.run")
	require.NoError(t, os.MkdirAll(filepath.Dir(left), 0o700))
	require.NoError(t, os.WriteFile(left, []byte("left"), 0o600))
	job, err := Open(f.opts)
	require.NoError(t, err)
	require.NoFileExists(t, left)
	require.NoError(t, job.Close())
	f.requireClean(t)
}

// TestMakeRoom: a batch of any size keeps to the worker's memory.
func TestMakeRoom(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")})
	set(t, f.globals, config.MemoryQuota, "1")
	job, err := Open(f.opts)
	require.NoError(t, err)
	w := job.NewWorker(nil)
	const n = 50_000
	value := bytes.Repeat([]byte("v"), 1000)
	for i := range n {
		require.NoError(t, w.Append(0, append(intKey(uint64(i), 0), value...), 18))
		require.NoError(t, w.MakeRoom(f.ctx))
	}
	w.Finish()
	require.Less(t, f.all.Usage().PeakMemoryBytes, int64(n*1000/4))
	require.NoError(t, job.Flush(f.ctx))
	require.Len(t, f.read(t, "a/"), n)
	require.EqualValues(t, n, job.Totals(0).Entries)
	require.NoError(t, job.Close())
	f.requireClean(t)
}

func TestATempFolderThatVanishesIsAnError(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")})
	set(t, f.globals, config.MemoryQuota, "1")
	job, err := Open(f.opts)
	require.NoError(t, err)
	w := job.NewWorker(nil)
	fill := func() error {
		for i := range 60_000 {
			require.NoError(t, w.Append(0, append(intKey(uint64(i), 0), 'v'), 18))
		}
		_, err := w.EndBatch(f.ctx)
		return err
	}
	require.NoError(t, fill())
	require.NoError(t, os.RemoveAll(f.opts.TempDir))
	require.ErrorIs(t, fill(), os.ErrNotExist)
	w.Discard()
	require.NoError(t, job.Close())
	require.Zero(t, f.all.Usage().TempBytes)
	require.Zero(t, f.all.Usage().MemoryBytes)
}

func TestCancelledFlushLeavesNoFile(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")})
	job, err := Open(f.opts)
	require.NoError(t, err)
	w := job.NewWorker(nil)
	for i := range 100_000 {
		require.NoError(t, w.Append(0, append(intKey(uint64(i), 0), 'v'), 18))
	}
	w.Finish()
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(errors.New("stopped"))
	require.ErrorIs(t, job.Flush(ctx), context.Canceled)
	require.NoError(t, job.Close())
	f.requireClean(t)
	require.Empty(t, f.read(t, "a/"))
}

func TestJobOptionsListEveryProblem(t *testing.T) {
	_, err := Open(JobOptions{MaxRuns: -1})
	for _, text := range []string{"Store", "Share", "TempDir", "Version", "Indexes", "MaxRuns"} {
		require.ErrorContains(t, err, text)
	}
}

// TestOlderEntriesAreNoDuplicates: what the store has of versions before the job's
// was left by a build that lost its first snapshot, and the row may have lost the
// value since.
func TestOlderEntriesAreNoDuplicates(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 8, Prefix: []byte("u/"), Unique: true})
	add := func(pairs ...string) error {
		job, err := Open(f.opts)
		require.NoError(t, err)
		w := job.NewWorker(nil)
		for _, p := range pairs {
			require.NoError(t, w.Append(0, []byte(p), 1))
		}
		w.Finish()
		err = job.Flush(f.ctx)
		require.NoError(t, job.Close())
		return err
	}
	require.NoError(t, add("a1")) // at the first snapshot
	var err error
	f.opts.Version, err = f.store.CurrentTS(f.ctx)
	require.NoError(t, err)
	require.NoError(t, add("b2")) // at the second, before a checkpoint
	f.opts.Indexes[0].Imported = true
	require.NoError(t, add("a3"), "the value was handed on between the snapshots")
}

// However much memory there is, what a worker may hold leaves half of an arena's positions for
// the batch with which it goes beyond: all of it may lie in one partition.
func TestAWorkersMemoryFitsAnArena(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")})
	set(t, f.globals, config.MemoryQuota, strconv.Itoa(64<<30))
	job, err := Open(f.opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, job.Close()) }()
	w := job.NewWorker(nil)
	defer w.Discard()
	require.Greater(t, f.opts.Share.memoryLimit(), int64(maxBlocks*blockSize))
	require.EqualValues(t, maxWorkerMemory, job.workerMemory())
}

// The indexes of runs are on the job's account. They may be larger than the runs, if keys are
// long and alike, and have the job flushed then.
func TestRunIndexesAreAccounted(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")})
	set(t, f.globals, config.MemoryQuota, "16000000")
	job, err := Open(f.opts)
	require.NoError(t, err)
	w := job.NewWorker(nil)
	held := func() int64 {
		w.account()
		return f.all.Usage().MemoryBytes - w.memory
	}
	require.Zero(t, held())
	like := bytes.Repeat([]byte("x"), 3000)
	for spills := 0; !job.NeedsFlush(); spills++ {
		require.Less(t, held(), int64(8_000_000))
		for k := range 4000 {
			key := binary.BigEndian.AppendUint32(slices.Clone(like), uint32(spills*4000+k))
			require.NoError(t, w.Append(0, append(key, 'v'), len(key)))
		}
		_, err := w.EndBatch(f.ctx)
		require.NoError(t, err)
		require.Greater(t, held(), int64(spills+1)*100_000)
	}
	w.Finish()
	require.NoError(t, job.Flush(f.ctx))
	require.NoError(t, job.Close())
	f.requireClean(t)
}

// A job of many indexes is flushed before its runs, which are open files, are too many.
func TestRunFilesAreBounded(t *testing.T) {
	indexes := make([]KeySpace, 40)
	for i := range indexes {
		indexes[i] = KeySpace{ID: int64(i + 1), Prefix: fmt.Appendf(nil, "%02d/", i)}
	}
	f := newJobFixture(t, indexes...)
	other := join(t, f.all, ShareOptions{JobID: 4})
	defer other.Leave()
	set(t, f.globals, config.MemoryQuota, "1")
	job, err := Open(f.opts)
	require.NoError(t, err)
	w := job.NewWorker(nil)
	value := bytes.Repeat([]byte("v"), 3000)
	for !job.NeedsFlush() {
		for i := range indexes {
			for k := range 400 {
				require.NoError(t, w.Append(i, append(intKey(uint64(k), 0), value...), 17))
			}
		}
		_, err := w.EndBatch(f.ctx)
		require.NoError(t, err)
	}
	runs := 0
	for i := range job.indexes {
		runs += len(job.indexes[i].runs)
	}
	require.Positive(t, runs)
	require.LessOrEqual(t, runs, maxRunFiles/2+len(indexes))
	w.Discard()
	require.NoError(t, job.Close())
}
