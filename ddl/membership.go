package ddl

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ddl/crew"
	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/kv"
)

// nodeOptions is what a node needs.
type nodeOptions struct {
	// Ctx ends with the component; spawn runs a function on a goroutine that it waits for when it closes.
	ctx   context.Context
	spawn func(fn func())
	// contain runs a function and makes an error of a panic in it.
	contain func(what string, fn func() error) error

	sessions *session.Pool
	// cluster are the other nodes; nil if there are none.
	cluster member.Cluster
	builds  kv.Store
	globals *config.Globals
	bus     *event.Bus
	logger  *zap.Logger
	tempDir string
	// scope returns the tidb_service_scope of this node.
	scope func() string

	// builder builds subtasks; buildTask describes the indexes of a job at a snapshot, and removeFiles removes a job's files.
	builder     builder
	buildTask   func(ctx context.Context, r *job.Record, ts uint64) (backfill.Task, error)
	removeFiles func(jobID int64) error

	// readable fails while the jobs cannot be read.
	readable func(ctx context.Context) error
	// adopt takes over the jobs that no node runs, and answer answers requests of other nodes.
	adopt, answer func(in *lease) error
	// awaitJobs waits until no job of a lease runs any more.
	awaitJobs func(in *lease)
	// obsolete are statements that delete what no node needs any more.
	obsolete []string
}

// node is this node's part in the builds of a cluster. Without other nodes it only has a lease that does not end.
type node struct {
	opts nodeOptions

	mu sync.Mutex
	// lease is the one that the node has, nil if it has none.
	lease *lease
	// nudge is closed, and replaced, when a subtask may have changed.
	nudge chan struct{}
	// executing are the jobs of which this node builds subtasks.
	executing map[int64]bool
	// trouble is what it has failed to build.
	trouble crew.Trouble
}

// newNode returns a node that has no lease.
func newNode(opts nodeOptions) *node {
	return &node{opts: opts, nudge: make(chan struct{}), executing: make(map[int64]bool)}
}

// clustered says that other nodes may run jobs, too.
func (n *node) clustered() bool { return n.opts.cluster != nil }

// begin begins a lease; m is nil without a cluster.
func (n *node) begin(m member.Member) *lease {
	ctx, end := context.WithCancel(n.opts.ctx)
	in := &lease{member: m, ctx: ctx, end: end, idle: make(map[int64]idleJob)}
	in.renew()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lease = in
	return in
}

// now returns the lease that the node has, nil if it has none.
func (n *node) now() *lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lease
}

// during calls fn if a lease is the node's, and fails with records.ErrLost if not. The lease does not end before fn has returned:
// awaitJobs finds what fn has begun. fn may not call methods of the node.
func (n *node) during(in *lease, fn func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if in == nil || in != n.lease {
		return records.ErrLost
	}
	return fn()
}

// nudged returns a channel that is closed when a subtask has changed, as
// far as this node is notified.
func (n *node) nudged() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nudge
}

// nudgeSubtasks says that a subtask may have changed.
func (n *node) nudgeSubtasks() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.nudge)
	n.nudge = make(chan struct{})
}
