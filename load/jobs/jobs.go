package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"go.uber.org/zap"

	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/invariants"
)

// ErrClosed is returned for statements that a shutdown has interrupted. Imports from files go on after the next start.
var ErrClosed = dbterror.ClassServer.NewStd(errno.ErrServerShutdown)

// Jobs runs imports. All methods may be called concurrently.
type Jobs struct {
	opts     Options
	ctx      context.Context
	cancel   context.CancelCauseFunc
	workers  sync.WaitGroup
	sessions *session.Pool
	versions *schema.Versions

	// Exclusion has the tables that are being imported.
	Exclusion Exclusion

	// queueing is held while an import is queued, so that a table has one at a time.
	queueing sync.Mutex
	// mu guards what follows.
	mu     sync.Mutex
	tasks  []*task
	closed bool
}

// New returns imports that are not started.
func New(opts Options) (*Jobs, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	j := &Jobs{opts: opts}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	j.sessions = session.NewPool(j.ctx, opts.Domain)
	return j, nil
}

// Start makes our table and goes on with the imports of an earlier process, before there are clients: their tables are closed to writers
// when it returns.
func (j *Jobs) Start(ctx context.Context) error {
	for _, create := range []string{createTable, createErrors} {
		if _, err := j.sessions.Query(ctx, create); err != nil {
			return fmt.Errorf("create system table: %w", err)
		}
	}
	j.versions = schema.StartVersions(j.opts.Domain, contained)
	var all []*Record
	var unreadable map[int64]error
	if err := j.sessions.InTxn(ctx, func(t *session.Txn) (err error) {
		if all, unreadable, err = loadAll(t); err != nil {
			return err
		}
		return undoOthers(t, all, j.store())
	}); err != nil {
		return fmt.Errorf("load imports: %w", err)
	}
	for id, why := range unreadable {
		if err := j.setAside(ctx, id, why); err != nil {
			return err
		}
	}
	for _, r := range all {
		t := newTask(j, r)
		t.emitBegin(string(r.Step), 0)
		if err := j.launch(t); err != nil {
			return err
		}
	}
	return nil
}

// store names the store.
func (j *Jobs) store() string { return j.opts.Domain.Store().UUID() }

// setAside leaves an import alone whose record cannot be read. Its table stays closed to writers, and its row in TiDB's queue keeps DDL off.
func (j *Jobs) setAside(ctx context.Context, id int64, why error) error {
	j.opts.Logger.Error("an import cannot go on; it waits for a version of fastddl that can read its record", zap.Int64("job", id), zap.Error(why))
	r := &Record{Step: StepLoading, Import: schema.Import{RowID: id}}
	err := j.sessions.InTxn(ctx, func(t *session.Txn) (err error) {
		r.Import.DB, r.Import.Table, err = schema.TableOfRow(t, id)
		return err
	})
	if err != nil || r.Import.Table == "" {
		return err
	}
	return j.Exclusion.exclude(r)
}

// Close stops all imports where they are, and waits for that. Closing twice does nothing.
func (j *Jobs) Close() error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.cancel(ErrClosed)
	j.workers.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.versions != nil {
		j.versions.Stop()
	}
	return nil
}

// launch starts the goroutine of an import.
func (j *Jobs) launch(t *task) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if r := t.record(); r.excludesWriters() {
		if err := j.Exclusion.exclude(r); err != nil {
			return err
		}
	}
	j.tasks = append(j.tasks, t)
	j.workers.Go(func() {
		defer j.left(t)
		t.run(j.ctx)
	})
	return nil
}

// left takes an import off whose goroutine ends.
func (j *Jobs) left(t *task) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tasks = slices.DeleteFunc(j.tasks, func(x *task) bool { return x == t })
	close(t.done)
}

// find returns the import that a function accepts, nil if none has not ended.
func (j *Jobs) find(is func(r *Record) bool) *task {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.tasks {
		if is(t.record()) {
			return t
		}
	}
	return nil
}

// removeFiles removes the temporary files of an import.
func (j *Jobs) removeFiles(id int64) error {
	return ingest.RemoveJobDir(j.opts.TempDir, id)
}

// contained runs fn and makes an error of a panic in it, but for an assertion that does not hold.
func contained(_ string, fn func() error) (err error) {
	defer func() {
		var panicked *errs.PanicError
		if errors.As(err, &panicked) {
			if violation, ok := panicked.Value.(invariants.Violation); ok {
				panic(violation)
			}
		}
	}()
	defer errs.Contain(&err)
	return fn()
}
