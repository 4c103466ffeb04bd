package ddl

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"go.uber.org/zap"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
	"fastddl/ingest"
	"fastddl/internal/invariants"
)

// ErrClosed is returned for statements that a shutdown has interrupted, with
// MySQL's number. Their jobs go on after the next start.
var ErrClosed = dbterror.ClassServer.NewStd(errno.ErrServerShutdown)

// DDL builds indexes. All methods may be called concurrently.
type DDL struct {
	opts Options

	// ctx ends with Close.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	workers sync.WaitGroup

	unsubscribe func()
	// views holds the *view of each job that has not ended, by ID. It has no lock in
	// common with the jobs, because events arrive while they work.
	views sync.Map
	// statements are the *task that a session's statement waits for, by the number of its connection.
	statements sync.Map
	// nudge is closed, and replaced, when a job of ours has ended, so that those that
	// wait for their turn look again.
	nudge chan struct{}

	// sessions run statements and transactions over system tables.
	sessions *session.Pool
	// records are the jobs' own tables.
	records *records.Tables
	// reports are the tables for people.
	reports *status.Tables
	// waits finds what jobs wait for.
	waits *status.Waits
	// node is this node's part in the builds of the cluster.
	node *dist.Node
	// versions is set by Start.
	versions *schema.Versions
	// ends counts the jobs that have ended here.
	ends atomic.Int64
	// trim has a value when the history is to be trimmed.
	trim chan struct{}
	// answering are the requests of other nodes that are being answered, by name.
	answering sync.Map

	// mu guards nudge and the fields below.
	mu sync.Mutex
	// unknown are the jobs of later versions that are already logged.
	unknown map[int64]bool
	// tasks are the jobs that have not ended, in order of ID.
	tasks  []*task
	closed bool
}

// clustered says that other nodes may run jobs, too.
func (d *DDL) clustered() bool { return d.opts.Cluster != nil }

// Backfiller is what makes the entries.
func (d *DDL) Backfiller() Backfiller { return d.opts.Backfiller }

// Sessions run statements over system tables.
func (d *DDL) Sessions() *session.Pool { return d.sessions }

// WithSystemSession runs fn with an internal session of TiDB's. No other caller gets a session
// in which fn has failed.
func (d *DDL) WithSystemSession(fn func(sctx sessionctx.Context) error) error {
	return d.sessions.WithContext(fn)
}

// inside runs fn on a goroutine that Close waits for; it does not if the component is closed.
func (d *DDL) inside(fn func()) (begun bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.workers.Go(fn)
	return true
}

// nudged returns a channel that is closed when a job has ended.
func (d *DDL) nudged() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nudge
}

// running returns the jobs that have not ended, in order of ID.
func (d *DDL) running() []*task {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.tasks)
}

// removeFiles removes the folder of a job.
func (d *DDL) removeFiles(id int64) error { return ingest.RemoveJobDir(d.opts.TempDir, id) }

// jobOfDir returns the job that a folder in the temp folder belongs to.
func jobOfDir(name string) (int64, bool) {
	id, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	return id, err == nil && filepath.Base(ingest.JobDir("", id)) == name
}

// contained runs fn and makes an error of a panic in it, but for an assertion that does not
// hold: a job that tried again would hide it.
func (d *DDL) contained(what string, fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if violation, ok := r.(invariants.Violation); ok {
				panic(violation)
			}
			d.opts.Logger.Error("panic in an index build", zap.String("in", what), zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			err = job.Permanent(fmt.Errorf("panic in %s: %v", what, r))
		}
	}()
	return fn()
}

func (d *DDL) lookup(id int64) *task {
	for _, t := range d.running() {
		if r := t.shown.Load(); t.id == id || r.RowID == id {
			return t
		}
	}
	return nil
}
