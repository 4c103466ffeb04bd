package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/collate"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

const (
	// cacheBytes is the block cache of the checkpoint's store: a build reads each block once.
	cacheBytes = 64 << 20
	// keptSuffix names the link to a file that the worker keeps for its own store.
	keptSuffix = ".kept"
)

// errServerGone says that the server has closed the connection.
var errServerGone = errors.New("worker: the server has closed the connection")

// Serve does the work of one build for the server at the other end of conn, which it closes at the end. Between two batches the build
// yields to the statements of the server. Gone is called when the server closes the connection, nil is not called: a process can end then,
// at any point of its work. Serve returns when the work is done, or the connection has ended; that the build has failed is no error of it.
func Serve(ctx context.Context, conn net.Conn, statements *flow.StatementMeter, gone func()) error {
	w := &served{stream: newStream(conn), pending: make(map[int64]chan error), globals: config.NewGlobals()}
	defer func() { _ = conn.Close() }()
	var first toWorker
	if err := w.receive(&first); err != nil {
		return fmt.Errorf("worker: receive the work: %w", err)
	}
	if first.Start == nil {
		return errors.New("worker: the first message is not what to build")
	}
	if err := w.send(&fromWorker{Begun: true}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer func() { _ = conn.Close() }()
	w.resources = ingest.NewResources(w.globals, first.Start.MaxWorkers)
	w.resources.Govern(nil, statements) // by the decisions of the server
	if err := w.apply(first.Start.Limits); err != nil {
		return err
	}
	listening.Go(func() {
		err := w.listen()
		if gone != nil && !w.done.Load() && errors.Is(err, errServerGone) {
			gone()
		}
		cancel(err)
	})
	d := w.build(ctx, first.Start)
	w.done.Store(true)
	if errors.Is(context.Cause(ctx), errServerGone) {
		return errServerGone
	}
	return w.send(&fromWorker{Done: d})
}

// served is the worker's end of a build.
type served struct {
	*stream
	globals   *config.Globals
	settings  ingest.LiveSettings
	resources *ingest.Resources
	done      atomic.Bool // the work

	mu      sync.Mutex
	nextID  int64
	pending map[int64]chan error // of requests
	table   *model.TableInfo
}

// listen takes messages of the server until the connection ends, and returns why it ended.
func (w *served) listen() (err error) {
	defer errs.Contain(&err)
	for {
		var m toWorker
		if err := w.receive(&m); err != nil {
			return fmt.Errorf("%w: %w", errServerGone, err)
		}
		switch {
		case m.Limits != nil:
			if err := w.apply(*m.Limits); err != nil {
				return err
			}
		case m.Answer != nil:
			w.answered(m.Answer)
		}
	}
}

// apply puts limits into force.
func (w *served) apply(l limits) error {
	if err := w.globals.Update(config.CheckpointInterval, l.CheckpointInterval.String()); err != nil {
		return err
	}
	return l.Parts.Apply(w.globals, &w.settings, w.resources)
}

func (w *served) answered(a *answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.pending[a.ID]; c != nil {
		delete(w.pending, a.ID)
		c <- a.Err.err(w.table)
	}
}

// request sends a request, made of its ID, and waits for the answer.
func (w *served) request(ctx context.Context, message func(id int64) *fromWorker) error {
	c := make(chan error, 1)
	w.mu.Lock()
	w.nextID++
	id := w.nextID
	w.pending[id] = c
	w.mu.Unlock()
	if err := w.send(message(id)); err != nil {
		return err
	}
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// build does the work. A panic of it is its error.
func (w *served) build(ctx context.Context, s *start) (d *done) {
	d = new(done)
	var err error
	defer func() { d.Err = newWireError(err) }()
	defer errs.Contain(&err)
	d.Checkpoint, d.Costs, err = w.ingest(ctx, s)
	return d
}

func (w *served) ingest(ctx context.Context, s *start) (checkpoint []byte, done backfill.IngestCosts, err error) {
	if collate.NewCollationEnabled() != s.Collations {
		collate.SetNewCollationEnabledForTest(s.Collations) // as TiDB's session does on its start
	}
	t, err := s.Task.task()
	if err != nil {
		return nil, done, err
	}
	w.mu.Lock()
	w.table = t.Table
	w.mu.Unlock()
	pebble, err := pebblekv.OpenCheckpoint(s.Dir, pebblekv.Options{CacheBytes: cacheBytes, MemTableBytes: s.MemTableBytes})
	if err != nil {
		return nil, done, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	store := &checkpointStore{Store: pebble, w: w, fail: fail}
	for _, idx := range t.Indexes {
		store.keeps = store.keeps || idx.Unique
	}
	defer func() { err = errs.Combine(err, pebble.Close()) }()
	bus := new(event.Bus)
	defer bus.Subscribe(func(e event.Event) {
		if err := w.show(e, t.JobID); err != nil {
			fail(fmt.Errorf("%w: %w", errServerGone, err))
		}
	})()
	return backfill.Ingest(ctx, backfill.Options{
		Store: store, TempDir: s.TempDir, Globals: w.globals, Bus: bus, Resources: w.resources, Settings: &w.settings,
		MaxWorkers: s.MaxWorkers, TaskBytes: s.TaskBytes, TargetFileBytes: s.TargetFileBytes,
		BatchRows: s.BatchRows, CheckpointInterval: s.CheckpointInterval,
		SaveCheckpoint: func(ctx context.Context, checkpoint []byte) error {
			return w.request(ctx, func(id int64) *fromWorker { return &fromWorker{Save: &saveRequest{id, checkpoint}} })
		},
	}, backfill.Spec{Task: t, Checkpoint: s.Checkpoint, Statistics: s.Statistics})
}

// show sends an event to the server, and with progress what the worker holds.
func (w *served) show(e event.Event, jobID int64) error {
	if p, ok := e.(event.Progress); ok {
		return w.send(&fromWorker{Progress: &progress{p, w.resources.Use(jobID)}})
	}
	if m := newWireEvent(e); m != nil {
		return w.send(&fromWorker{Event: m})
	}
	return nil
}

// checkpointStore is the checkpoint, whose imports are the server's.
type checkpointStore struct {
	*pebblekv.Store
	w *served
	// fail ends the build.
	fail context.CancelCauseFunc
	// keeps says that reads of the build have to see what it has imported.
	keeps bool
}

// Import implements kv.Store: the server checks the units and takes them in.
func (s *checkpointStore) Import(ctx context.Context, units []kv.ImportUnit) (err error) {
	files := make([]pebblekv.UnitFile, len(units))
	for i, u := range units {
		if files[i], err = pebblekv.FileOf(u); err != nil {
			return err
		}
	}
	kept, err := s.keep(files)
	if err != nil {
		return err
	}
	err = s.w.request(ctx, func(id int64) *fromWorker { return &fromWorker{Import: &importRequest{id, files}} })
	if err == nil && len(kept) > 0 {
		if own := s.Store.Import(ctx, kept); own != nil {
			// The server has the entries. An error of this store is no error of that one, and asking again would not help.
			err = fmt.Errorf("worker: its own copy has not taken entries: %v", own)
			s.fail(err)
		}
	}
	for _, u := range kept {
		err = errs.Combine(err, u.Discard())
	}
	if err != nil {
		return fmt.Errorf("worker: import: %w", err)
	}
	return nil
}

// keep links files, which the server takes away, for the checkpoint's own store.
func (s *checkpointStore) keep(files []pebblekv.UnitFile) (kept []kv.ImportUnit, err error) {
	if !s.keeps {
		return nil, nil
	}
	defer func() {
		if err != nil {
			for _, u := range kept {
				err = errs.Combine(err, u.Discard())
			}
		}
	}()
	for _, f := range files {
		path := f.Path + keptSuffix
		// An attempt before this one may have left it.
		if err := errors.Join(vfs.Default.RemoveAll(path), vfs.LinkOrCopy(vfs.Default, f.Path, path)); err != nil {
			return kept, fmt.Errorf("worker: keep %s: %w", f.Path, err)
		}
		f.Path = path
		u, err := s.Store.Unit(f)
		if err != nil {
			return kept, err
		}
		kept = append(kept, u)
	}
	return kept, nil
}
