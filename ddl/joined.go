package ddl

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fastddl/internal/parallel"
	"fastddl/internal/sleep"
)

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
