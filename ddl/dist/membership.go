package dist

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fastddl/internal/parallel"
	"fastddl/internal/sleep"
)

// Join makes the node a member of the cluster, for the first time, and keeps it one.
func (n *Node) Join(ctx context.Context) error {
	m, err := n.opts.Cluster.Join(ctx)
	if err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	lease := n.Begin(m)
	n.opts.Spawn(func() {
		for {
			err := n.opts.Contain("the membership in the cluster", func() error { return n.serve(lease) })
			if n.opts.Ctx.Err() != nil {
				return
			}
			n.opts.Logger.Warn("no index builds run here until this node is a member of the cluster again", zap.Error(err))
			if !n.awaitStore() {
				return
			}
			m, err := n.opts.Cluster.Join(n.opts.Ctx)
			if err != nil {
				return // the component is closed
			}
			n.opts.Logger.Info("this node is a member of the cluster again", zap.String("member", m.Name()))
			lease = n.Begin(m)
		}
	})
	return nil
}

// awaitStore waits until the node can read the jobs: a member that cannot would
// only keep them from others. It returns false if the component is closed.
func (n *Node) awaitStore() bool {
	for {
		if n.opts.Readable(n.opts.Ctx) == nil {
			return true
		}
		if !sleep.For(n.opts.Ctx, pollInterval) {
			return false
		}
	}
}

// serve takes over what no other node does, until the lease ends. When it returns, none
// of the lease's jobs runs here any more, and others may have them.
func (n *Node) serve(lease *Lease) error {
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() { // beside what follows, which may wait for a store that does not answer
		defer close(watched)
		if err := lease.watch(stop); err != nil {
			n.opts.Logger.Warn("this node leaves its index builds to others", zap.String("member", lease.Name()), zap.Error(err))
		}
	}()
	defer func() {
		n.mu.Lock()
		n.lease = nil
		n.mu.Unlock()
		close(stop)
		<-watched
		n.opts.AwaitJobs(lease)
		lease.executors.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(n.opts.Ctx), leaveTimeout)
		defer cancel()
		if err := lease.member.Leave(ctx); err != nil {
			n.opts.Logger.Info("the others learn late that this node has left", zap.Error(err))
		}
	}()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	forget := time.NewTicker(cleanInterval)
	defer forget.Stop()
	for {
		if err := n.poll(lease); err != nil && lease.Ctx.Err() == nil {
			return err
		}
		select {
		case <-lease.Ctx.Done():
			return context.Cause(lease.Ctx)
		case <-n.opts.Cluster.Changed():
			n.nudgeSubtasks()
		case <-tick.C:
		case <-forget.C:
			for _, leftover := range n.opts.Obsolete {
				if _, err := n.opts.Sessions.Query(lease.Ctx, leftover); err != nil && lease.Ctx.Err() == nil {
					n.opts.Logger.Warn("cannot delete what nobody needs any more", zap.String("statement", leftover), zap.Error(err))
				}
			}
		}
	}
}

// poll claims pending work. Subtasks that wait for an executor do not wait for
// the rest of it. Its error is a panic's.
func (n *Node) poll(lease *Lease) error {
	warn := func(what string, err error) {
		if err != nil && lease.Ctx.Err() == nil {
			n.opts.Logger.Warn("cannot look for "+what, zap.Error(err))
		}
	}
	return parallel.Do(lease.Ctx, 2, func() int { return 2 }, func(_ context.Context, i int) error {
		if i == 0 {
			err := n.startExecutors(lease)
			if err == nil {
				lease.Renew()
			}
			warn("index builds that need a hand", err)
			return nil
		}
		warn("index builds that nobody runs", n.opts.Adopt(lease))
		warn("requests of other nodes", n.opts.Answer(lease)) // also for a job that was taken over just now
		return nil
	})
}
