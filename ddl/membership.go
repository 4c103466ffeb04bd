package ddl

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ddl/crew"
	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/internal/parallel"
	"fastddl/internal/sleep"
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

// join makes the node a member of the cluster, for the first time, and keeps it one.
func (n *node) join(ctx context.Context) error {
	m, err := n.opts.cluster.Join(ctx)
	if err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	in := n.begin(m)
	n.opts.spawn(func() {
		for {
			err := n.opts.contain("the membership in the cluster", func() error { return n.serve(in) })
			if n.opts.ctx.Err() != nil {
				return
			}
			n.opts.logger.Warn("no index builds run here until this node is a member of the cluster again", zap.Error(err))
			if !n.awaitStore() {
				return
			}
			m, err := n.opts.cluster.Join(n.opts.ctx)
			if err != nil {
				return // the component is closed
			}
			n.opts.logger.Info("this node is a member of the cluster again", zap.String("member", m.Name()))
			in = n.begin(m)
		}
	})
	return nil
}

// awaitStore waits until the node can read the jobs: a member that cannot would
// only keep them from others. It returns false if the component is closed.
func (n *node) awaitStore() bool {
	for {
		if n.opts.readable(n.opts.ctx) == nil {
			return true
		}
		if !sleep.For(n.opts.ctx, pollInterval) {
			return false
		}
	}
}

// serve takes over what no other node does, until the lease ends. When it returns, none
// of the lease's jobs runs here any more, and others may have them.
func (n *node) serve(in *lease) error {
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() { // beside what follows, which may wait for a store that does not answer
		defer close(watched)
		if err := in.watch(stop); err != nil {
			n.opts.logger.Warn("this node leaves its index builds to others", zap.String("member", in.name()), zap.Error(err))
		}
	}()
	defer func() {
		n.mu.Lock()
		n.lease = nil
		n.mu.Unlock()
		close(stop)
		<-watched
		n.opts.awaitJobs(in)
		in.executors.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(n.opts.ctx), leaveTimeout)
		defer cancel()
		if err := in.member.Leave(ctx); err != nil {
			n.opts.logger.Info("the others learn late that this node has left", zap.Error(err))
		}
	}()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	forget := time.NewTicker(cleanInterval)
	defer forget.Stop()
	for {
		if err := n.poll(in); err != nil && in.ctx.Err() == nil {
			return err
		}
		select {
		case <-in.ctx.Done():
			return context.Cause(in.ctx)
		case <-n.opts.cluster.Changed():
			n.nudgeSubtasks()
		case <-tick.C:
		case <-forget.C:
			for _, leftover := range n.opts.obsolete {
				if _, err := n.opts.sessions.Query(in.ctx, leftover); err != nil && in.ctx.Err() == nil {
					n.opts.logger.Warn("cannot delete what nobody needs any more", zap.String("statement", leftover), zap.Error(err))
				}
			}
		}
	}
}

// poll claims pending work. Subtasks that wait for an executor do not wait for
// the rest of it. Its error is a panic's.
func (n *node) poll(in *lease) error {
	warn := func(what string, err error) {
		if err != nil && in.ctx.Err() == nil {
			n.opts.logger.Warn("cannot look for "+what, zap.Error(err))
		}
	}
	return parallel.Do(in.ctx, 2, func() int { return 2 }, func(_ context.Context, i int) error {
		if i == 0 {
			err := n.startExecutors(in)
			if err == nil {
				in.renew()
			}
			warn("index builds that need a hand", err)
			return nil
		}
		warn("index builds that nobody runs", n.opts.adopt(in))
		warn("requests of other nodes", n.opts.answer(in)) // also for a job that was taken over just now
		return nil
	})
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
