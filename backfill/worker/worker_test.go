package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// TestWorkersBuildRandomTables: what a worker has built are the entries at S, regardless of later writes.
func TestWorkersBuildRandomTables(t *testing.T) {
	r := backfilltest.Rand(t)
	for round := range backfilltest.Rounds(12) {
		table, idx, kinds := backfilltest.RandomTable(r)
		idx.State = model.StateWriteReorganization
		second := backfilltest.RandomIndex(r, table, kinds, idx.ID+1)
		f := backfilltest.NewFixture(t, table, kinds)
		f.Insert(r, 50+r.IntN(400))
		b := newBed(f, idx, second)
		task := b.task()
		rows := backfilltest.CloneRows(f.Rows)
		f.Insert(r, 50) // in the store, not in the build
		after := f.Rows
		f.Rows = rows
		res, err := b.run(t.Context(), task, NewHost(b.opts))
		if dup := (*ingest.DuplicateError)(nil); errors.As(err, &dup) {
			_, inside := b.run(t.Context(), task, nil)
			want := (*ingest.DuplicateError)(nil)
			require.ErrorAs(t, inside, &want)
			require.Equal(t, want.Groups, dup.Groups)
			b.requireClean()
			continue
		}
		require.NoError(t, err, "round %d: %s", round, backfilltest.Describe(table, idx, kinds))
		require.EqualValues(t, len(rows), res.Rows)
		for _, idx := range b.indexes {
			f.RequireIndex(idx, task.TS, backfilltest.Describe(table, idx, kinds))
		}
		b.requireClean()
		f.Rows = after
	}
}

// TestWorkersEndAtRandomMoments: the job goes on from what was saved, until the index is built.
func TestWorkersEndAtRandomMoments(t *testing.T) {
	r := backfilltest.Rand(t)
	lost, built := 0, 0
	for range backfilltest.Rounds(6) {
		b := plainBed(t, 3000, backfilltest.IndexOn(1, false, 1), backfilltest.IndexOn(2, true, 0))
		task := b.task()
		killed := &killingStore{Store: b.Store} // of which the first worker cannot do its work
		b.opts.Store, b.opts.Start = killed, killed.start
		for ; ; b.opts.Store, b.opts.Start = b.Store, inside(nil, endsAfter(r.IntN(80))) {
			_, err := b.run(t.Context(), task, NewHost(b.opts), func(o *backfill.Options) { o.CheckpointInterval = time.Millisecond })
			b.requireClean()
			if err == nil {
				break
			}
			var gone *LostError
			require.ErrorAs(t, err, &gone)
			lost++
		}
		built++
		b.RequireLoaded(3000, task.TS, b.indexes...)
	}
	require.GreaterOrEqual(t, lost, built)
	t.Logf("%d builds, %d workers lost", built, lost)
}

// killingStore ends a worker that asks it to import.
type killingStore struct {
	*pebblekv.Store
	process Process
}

func (s *killingStore) start() (p Process, c net.Conn, err error) {
	p, c, err = Inside(nil)()
	s.process = p
	return p, c, err
}

func (s *killingStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	s.process.Kill()
	return s.Store.Import(ctx, units)
}

// endsAfter ends a connection after so many writes and reads, or somewhere in the last one.
func endsAfter(n int) func(net.Conn) net.Conn {
	return func(c net.Conn) net.Conn {
		e := &endingConn{Conn: c}
		e.left.Store(int64(n))
		return e
	}
}

type endingConn struct {
	net.Conn
	left atomic.Int64
}

func (c *endingConn) Write(p []byte) (int, error) {
	if c.left.Add(-1) < 0 {
		_, _ = c.Conn.Write(p[:len(p)/2])
		return 0, errors.Join(errors.New("the worker has been killed"), c.Conn.Close())
	}
	return c.Conn.Write(p)
}

// TestUniqueIndexesOverSeveralRounds: equal values are met though the worker reads a checkpoint that has none of its imports.
func TestUniqueIndexesOverSeveralRounds(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	f.Load(4000)
	f.Put(3_999, 1_000_000_000)
	f.Put(5, 1_000_000_000)
	b := newBed(f, backfilltest.IndexOn(1, true, 1))
	for id := int64(1); id <= 4000; id++ {
		if id != 3_999 && id != 5 {
			f.Put(id, id)
		}
	}
	task := b.task()
	several := func(o *backfill.Options) { o.CheckpointInterval, o.BatchRows, o.MaxWorkers = time.Millisecond, 32, 1 }
	rounds := 0
	b.bus.Subscribe(func(e event.Event) {
		if e, ok := e.(backfill.Finished); ok {
			rounds = e.Result.Flushes
			require.False(t, e.Result.Rebuilt, "the first attempt did not meet them")
		}
	})
	_, inside := b.run(t.Context(), task, nil, several)
	require.Greater(t, rounds, 1)
	var want, got *ingest.DuplicateError
	require.ErrorAs(t, inside, &want)
	b.saved = nil
	require.NoError(t, f.Store.DeleteRange(t.Context(), encode.IndexRange(table.ID, 1)))
	_, err := b.run(t.Context(), task, NewHost(b.opts), several)
	require.Greater(t, rounds, 1)
	require.ErrorAs(t, err, &got)
	require.Equal(t, want.Groups, got.Groups)
	b.requireClean()
}

// TestCancelledBuildsEndTheirWorker, wherever it is.
func TestCancelledBuildsEndTheirWorker(t *testing.T) {
	b := plainBed(t, 5000, backfilltest.IndexOn(1, false, 1))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("paused")
	b.bus.Subscribe(func(e event.Event) {
		if _, ok := e.(event.RangeDone); ok {
			cancel(why)
		}
	})
	_, err := b.run(ctx, b.task(), NewHost(b.opts))
	require.ErrorIs(t, err, why)
	b.requireClean()
}

// TestSilentWorkersAreEnded.
func TestSilentWorkersAreEnded(t *testing.T) {
	b := plainBed(t, 100, backfilltest.IndexOn(1, false, 1))
	b.opts.Silence = 10 * time.Millisecond
	b.opts.Start = func() (Process, net.Conn, error) {
		server, child := net.Pipe()
		p := &goProcess{ends: []net.Conn{server, child}, ended: make(chan struct{})}
		go func() {
			defer close(p.ended)
			s := newStream(child)
			for m := new(toWorker); s.receive(m) == nil; m = new(toWorker) {
				if m.Start != nil && s.send(&fromWorker{Begun: true}) != nil {
					return
				}
			}
		}()
		return p, server, nil
	}
	_, err := b.run(t.Context(), b.task(), NewHost(b.opts))
	require.ErrorIs(t, err, errSilent)
	b.requireClean()
}

// TestHungryWorkersHaveHalf: a job whose worker has died of memory is tried with half, and then not again.
func TestHungryWorkersHaveHalf(t *testing.T) {
	b := plainBed(t, 100, backfilltest.IndexOn(1, false, 1))
	var quotas []int64
	b.opts.Start = func() (Process, net.Conn, error) {
		server, child := net.Pipe()
		p := &goProcess{ends: []net.Conn{server, child}, ended: make(chan struct{}), exit: Exit{Err: errors.New("killed"), OutOfMemory: true}}
		go func() {
			defer close(p.ended)
			var m toWorker
			if newStream(child).receive(&m) == nil {
				quotas = append(quotas, m.Start.Limits.Parts.MemoryQuota)
			}
			p.Kill()
		}()
		return p, server, nil
	}
	host, task := NewHost(b.opts), b.task()
	_, err := b.run(t.Context(), task, host)
	require.ErrorAs(t, err, new(*LostError))
	_, err = b.run(t.Context(), task, host)
	require.ErrorAs(t, err, new(*MemoryError))
	require.Len(t, quotas, 2)
	require.InEpsilon(t, quotas[0]/2, quotas[1], 0.01)
}

// TestFilesOfOthersAreRefused: a worker can have the server import nothing but the entries of its build.
func TestFilesOfOthersAreRefused(t *testing.T) {
	b := plainBed(t, 100, backfilltest.IndexOn(1, false, 1))
	task := b.task()
	s := &session{host: NewHost(b.opts), work: backfill.IngestWork{Task: task}, dir: "/tmp/job-77"}
	keys := encode.IndexRange(task.Table.ID, 1)
	s.work.Ranges = []keyrange.Indexed{{KeyRange: keys}}
	require.NoFileExists(t, s.dir)
	file := pebblekv.UnitFile{Path: "/tmp/job-77/import-1.sst", Version: task.TS, Start: kv.NextKey(keys.Start), End: kv.NextKey(kv.NextKey(keys.Start)), Size: 1, Count: 1}
	require.NoError(t, s.mayImport(&file))
	for name, change := range map[string]func(f *pebblekv.UnitFile){
		"another folder":  func(f *pebblekv.UnitFile) { f.Path = "/tmp/job-78/import-1.sst" },
		"a way out":       func(f *pebblekv.UnitFile) { f.Path = "/tmp/job-77/../job-78/import-1.sst" },
		"another version": func(f *pebblekv.UnitFile) { f.Version-- },
		"another index":   func(f *pebblekv.UnitFile) { f.Start = encode.IndexRange(task.Table.ID, 2).Start },
		"rows": func(f *pebblekv.UnitFile) {
			f.Start, f.End = encode.RecordRange(task.Table.ID).Start, encode.RecordRange(task.Table.ID).End
		},
		"more than it":     func(f *pebblekv.UnitFile) { f.End = encode.RecordRange(task.Table.ID).End },
		"all before it":    func(f *pebblekv.UnitFile) { f.Start = nil },
		"no end":           func(f *pebblekv.UnitFile) { f.End = nil },
		"no pairs":         func(f *pebblekv.UnitFile) { f.Count = 0 },
		"the store's keys": func(f *pebblekv.UnitFile) { f.Start, f.End = []byte{0xff}, []byte{0xff, 1} },
	} {
		f := file
		change(&f)
		err := s.importFiles(t.Context(), []pebblekv.UnitFile{f})
		require.Error(t, err, name)
		require.False(t, errors.Is(err, os.ErrNotExist), "a file was opened that is not one of the build: %s", name)
	}
}

// TestTakes: which builds are a worker's.
func TestTakes(t *testing.T) {
	foreground := false
	globals := config.NewGlobals()
	h := NewHost(Options{Globals: globals, Foreground: func() bool { return foreground }})
	large, small := backfill.IngestWork{Bytes: MinBytes}, backfill.IngestWork{Bytes: MinBytes - 1}
	require.False(t, h.Takes(large), "a quiet server's builds stay in it")
	foreground = true
	require.True(t, h.Takes(large))
	require.False(t, h.Takes(small))
	for value, takes := range map[string]bool{config.WorkerOn: true, config.WorkerOff: false} {
		_, _, err := globals.Set(config.Worker, value)
		require.NoError(t, err)
		require.Equal(t, takes, h.Takes(large))
		require.Equal(t, takes, h.Takes(small))
	}
}

// TestLimitsReachTheWorker at once: here the speed of writing, of the job and of the node.
func TestLimitsReachTheWorker(t *testing.T) {
	b := plainBed(t, 20_000, backfilltest.IndexOn(1, false, 1, 2))
	settings := new(ingest.LiveSettings)
	settings.Set(ingest.Settings{WriteSpeed: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b.bus.Subscribe(func(e event.Event) {
		if e, ok := e.(event.Throttled); ok && e.Reason == "max_write_speed" {
			go settings.Set(ingest.Settings{}) // the worker waits: only a change ends that
		}
	})
	_, err := b.run(ctx, b.task(), NewHost(b.opts), func(o *backfill.Options) { o.Settings = settings })
	require.NoError(t, err)
}

// orderedStore notes what is asked of it.
type orderedStore struct {
	*pebblekv.Store
	calls []string
}

func (s *orderedStore) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	s.calls = append(s.calls, fmt.Sprintf("snapshot at %d", ts))
	return s.Store.Snapshot(ctx, ts)
}

func (s *orderedStore) CheckpointOf(ctx context.Context, opts pebblekv.CheckpointOptions) (*pebblekv.Checkpoint, error) {
	s.calls = append(s.calls, "checkpoint")
	return s.Store.CheckpointOf(ctx, opts)
}

// TestCheckpointsHaveAllCommits: a checkpoint is made only when no transaction can commit at or below S any more. The worker cannot wait for
// them: it has no part in the store's transactions.
func TestCheckpointsHaveAllCommits(t *testing.T) {
	b := plainBed(t, 100, backfilltest.IndexOn(1, false, 1))
	store := &orderedStore{Store: b.Store}
	b.opts.Store = store
	host, task := NewHost(b.opts), b.task()
	c, err := host.checkpoint(t.Context(), backfill.IngestWork{Task: task})
	require.NoError(t, err)
	require.NoError(t, c.Discard())
	require.Equal(t, []string{fmt.Sprintf("snapshot at %d", task.TS), "checkpoint"}, store.calls)
}

// TestWorkersYieldToStatements that the server executes.
func TestWorkersYieldToStatements(t *testing.T) {
	b := plainBed(t, 20_000, backfilltest.IndexOn(1, false, 1))
	var number atomic.Int64
	server := new(flow.StatementMeter)
	server.Show(&number)
	for range 100 {
		defer server.Begin()()
	}
	b.opts.Start = Inside(flow.NewMeterElsewhere(&number))
	var yielded atomic.Bool
	b.bus.Subscribe(func(e event.Event) {
		if e, ok := e.(event.Throttled); ok && e.Yields && e.Reason == "foreground: "+string(flow.Statements) {
			yielded.Store(true)
		}
	})
	_, err := b.run(t.Context(), b.task(), NewHost(b.opts))
	require.NoError(t, err)
	require.True(t, yielded.Load(), "a hundred statements run")
}

// withoutLinks is a store on a file system without links.
type withoutLinks struct{ *pebblekv.Store }

func (withoutLinks) CheckpointOf(context.Context, pebblekv.CheckpointOptions) (*pebblekv.Checkpoint, error) {
	return nil, syscall.EPERM
}

// TestBuildsWithoutAProcessStayInside: a build goes on in the server if no checkpoint can be made, or no process be started.
func TestBuildsWithoutAProcessStayInside(t *testing.T) {
	b := plainBed(t, 1000, backfilltest.IndexOn(1, false, 1))
	task := b.task()
	b.opts.Store = withoutLinks{b.Store}
	_, err := b.run(t.Context(), task, NewHost(b.opts))
	require.NoError(t, err)
	b.RequireLoaded(1000, task.TS, b.indexes...)
	b.opts.Store = b.Store

	b.DropIndex(b.indexes[0])
	b.saved, task = nil, b.task()
	b.opts.Start = func() (Process, net.Conn, error) { return nil, nil, errors.New("no processes are left") }
	_, err = b.run(t.Context(), task, NewHost(b.opts))
	require.NoError(t, err)
	b.RequireIndex(b.indexes[0], task.TS, "without a process")

	b.DropIndex(b.indexes[0])
	b.saved, task = nil, b.task()
	b.opts.Start = inside(nil, func(c net.Conn) net.Conn { _ = c.Close(); return c })
	_, err = b.run(t.Context(), task, NewHost(b.opts))
	require.NoError(t, err)
	b.RequireIndex(b.indexes[0], task.TS, "with a process that ends at once")
	b.requireClean()
}

// TestWorkersThatAlwaysEndEarly: by AUTO the server does the work when three in a row have not saved anything.
func TestWorkersThatAlwaysEndEarly(t *testing.T) {
	b := plainBed(t, 1000, backfilltest.IndexOn(1, false, 1))
	h := NewHost(b.opts)
	_, _, err := b.globals.Set(config.Worker, config.WorkerAuto)
	require.NoError(t, err)
	h.opts.Foreground = func() bool { return true }
	work := backfill.IngestWork{Task: encode.Task{JobID: 77}, Bytes: MinBytes}
	for range maxLosses {
		require.True(t, h.Takes(work))
		require.Error(t, h.lost(77, limits{}, &LostError{JobID: 77, Err: errSilent}))
	}
	require.False(t, h.Takes(work))
	h.saved(77)
	require.True(t, h.Takes(work))
}

// movingStore moves a unit's file before its first import fails, as the embedded store does with one of another file system.
type movingStore struct {
	*pebblekv.Store
	fails atomic.Int64
}

func (s *movingStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	if s.fails.Add(-1) >= 0 {
		return &kv.DiskFullError{Free: 1, Needed: 2}
	}
	return s.Store.Import(ctx, units)
}

// TestFullDiskBetweenImports: the worker waits for room and asks again, and what is not taken at the end is removed.
func TestFullDiskBetweenImports(t *testing.T) {
	b := plainBed(t, 1000, backfilltest.IndexOn(1, true, 0))
	store := &movingStore{Store: b.Store}
	store.fails.Store(1)
	b.opts.Store = store
	task := b.task()
	_, err := b.run(t.Context(), task, NewHost(b.opts))
	require.NoError(t, err)
	b.RequireLoaded(1000, task.TS, b.indexes...)
	b.requireClean()

	other := plainBed(t, 1000, backfilltest.IndexOn(1, false, 1))
	full := &movingStore{Store: other.Store}
	full.fails.Store(1 << 30)
	other.opts.Store = full
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("cancelled")
	other.bus.Subscribe(func(e event.Event) {
		if e, ok := e.(event.Retry); ok && e.Op == "import" {
			cancel(why)
		}
	})
	_, err = other.run(ctx, other.task(), NewHost(other.opts))
	require.ErrorIs(t, err, why)
	other.requireClean()
}
