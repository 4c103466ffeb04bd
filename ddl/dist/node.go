package dist

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"fastddl/backfill/encode"
	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/kv"
)

// Options is what a node needs.
type Options struct {
	// Ctx ends with the component; Spawn runs a function on a goroutine that the component waits for when it closes.
	Ctx   context.Context
	Spawn func(fn func())
	// Contain runs a function and makes an error of a panic in it.
	Contain func(what string, fn func() error) error

	Sessions *session.Pool
	// Cluster are the other nodes; nil if there are none.
	Cluster member.Cluster
	Builds  kv.Store
	Globals *config.Globals
	Bus     *event.Bus
	Logger  *zap.Logger
	TempDir string
	// Scope returns the tidb_service_scope of this node.
	Scope func() string
	// Now is the clock by which windows open and close.
	Now func() time.Time

	// Builder builds subtasks; BuildTask describes the indexes of a job at a snapshot, and RemoveFiles removes a job's files.
	Builder     Builder
	BuildTask   func(ctx context.Context, r *job.Record, ts uint64) (encode.Task, error)
	RemoveFiles func(jobID int64) error

	// Readable fails while the jobs cannot be read.
	Readable func(ctx context.Context) error
	// Adopt takes over the jobs that no node runs, and Answer answers requests of other nodes.
	Adopt, Answer func(lease *Lease) error
	// AwaitJobs waits until no job of a lease runs any more.
	AwaitJobs func(lease *Lease)
	// Obsolete are statements that delete what no node needs any more.
	Obsolete []string
}

// Node is this node's part in the builds of a cluster. Without other nodes it only has a lease that does not end.
type Node struct {
	opts Options

	mu sync.Mutex
	// lease is the one that the node has, nil if it has none.
	lease *Lease
	// nudge is closed, and replaced, when a subtask may have changed.
	nudge chan struct{}
	// executing are the jobs of which this node builds subtasks.
	executing map[int64]bool
	// trouble is what it has failed to build.
	trouble Trouble
}

// NewNode returns a node that has no lease.
func NewNode(opts Options) *Node {
	return &Node{opts: opts, nudge: make(chan struct{}), executing: make(map[int64]bool)}
}

// clustered says that other nodes may run jobs, too.
func (n *Node) clustered() bool { return n.opts.Cluster != nil }

// Begin begins a lease; m is nil without a cluster.
func (n *Node) Begin(m member.Member) *Lease {
	ctx, end := context.WithCancel(n.opts.Ctx)
	lease := &Lease{member: m, Ctx: ctx, end: end, idle: make(map[int64]idleJob)}
	lease.Renew()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lease = lease
	return lease
}

// Lease returns the lease that the node has, nil if it has none.
func (n *Node) Lease() *Lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lease
}

// During calls fn if a lease is the node's, and fails with records.ErrLost if not. The lease does not end before fn has returned:
// AwaitJobs finds what fn has begun. fn may not call methods of the node.
func (n *Node) During(lease *Lease, fn func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if lease == nil || lease != n.lease {
		return records.ErrLost
	}
	return fn()
}

// nudged returns a channel that is closed when a subtask has changed, as
// far as this node is notified.
func (n *Node) nudged() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nudge
}

// nudgeSubtasks says that a subtask may have changed.
func (n *Node) nudgeSubtasks() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.nudge)
	n.nudge = make(chan struct{})
}
