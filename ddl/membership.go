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
func (d *DDL) join(ctx context.Context) error {
	m, err := d.opts.Cluster.Join(ctx)
	if err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	in := d.begin(m)
	d.workers.Go(func() {
		for {
			err := d.contained("the membership in the cluster", func() error { return d.serve(in) })
			if d.ctx.Err() != nil {
				return
			}
			d.opts.Logger.Warn("no index builds run here until this node is a member of the cluster again", zap.Error(err))
			if !d.awaitStore() {
				return
			}
			m, err := d.opts.Cluster.Join(d.ctx)
			if err != nil {
				return // the component is closed
			}
			d.opts.Logger.Info("this node is a member of the cluster again", zap.String("member", m.Name()))
			in = d.begin(m)
		}
	})
	return nil
}

// awaitStore waits until the node can read what jobs there are: a member that cannot would
// only keep them from others. It returns false if the component is closed.
func (d *DDL) awaitStore() bool {
	for {
		if _, err := d.records.loadJobs(d.ctx); err == nil {
			return true
		}
		if !sleep.For(d.ctx, lookInterval) {
			return false
		}
	}
}

// serve takes over what nobody else does, until the tenure ends. When it returns, none
// of the tenure's jobs runs here any more, and others may have them.
func (d *DDL) serve(in *tenure) error {
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() { // beside what follows, which may wait for a store that does not answer
		defer close(watched)
		if err := in.watch(stop); err != nil {
			d.opts.Logger.Warn("this node leaves its index builds to others", zap.String("member", in.name()), zap.Error(err))
		}
	}()
	defer func() {
		d.mu.Lock()
		d.tenure = nil
		d.mu.Unlock()
		close(stop)
		<-watched
		d.awaitTasks(in)
		in.hands.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), leaveTimeout)
		defer cancel()
		if err := in.member.Leave(ctx); err != nil {
			d.opts.Logger.Info("the others learn late that this node has left", zap.Error(err))
		}
	}()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	forget := time.NewTicker(forgetInterval)
	defer forget.Stop()
	for {
		if err := d.look(in); err != nil && in.ctx.Err() == nil {
			return err
		}
		select {
		case <-in.ctx.Done():
			return context.Cause(in.ctx)
		case <-d.opts.Cluster.Changed():
			d.nudgeParts()
		case <-tick.C:
		case <-forget.C:
			for _, leftover := range []string{forgetOldRequests, forgetTakenVersions} {
				if _, err := d.sessions.query(in.ctx, leftover); err != nil && in.ctx.Err() == nil {
					d.opts.Logger.Warn("cannot delete what nobody needs any more", zap.String("statement", leftover), zap.Error(err))
				}
			}
		}
	}
}

// look looks what there is for this node to do. Parts that wait for a hand do not wait for
// the rest of it. Its error is a panic's.
func (d *DDL) look(in *tenure) error {
	warn := func(what string, err error) {
		if err != nil && in.ctx.Err() == nil {
			d.opts.Logger.Warn("cannot look for "+what, zap.Error(err))
		}
	}
	return parallel.Do(in.ctx, 2, func() int { return 2 }, func(_ context.Context, i int) error {
		if i == 0 {
			err := d.help(in)
			if err == nil {
				in.heard()
			}
			warn("index builds that need a hand", err)
			return nil
		}
		warn("index builds that nobody runs", d.adopt(in))
		warn("requests of other nodes", d.answerRequests(in)) // also for a job that was taken over just now
		return nil
	})
}

// awaitTasks waits until no job of a tenure runs any more.
func (d *DDL) awaitTasks(in *tenure) {
	for _, t := range d.running() {
		if t.tenure == in {
			<-t.done
		}
	}
}

// adopt takes the jobs over whose owners are no members any more, and those that are this
// node's own without its running them.
func (d *DDL) adopt(in *tenure) error {
	jobs, err := d.records.loadJobs(in.ctx)
	if err != nil {
		return err
	}
	in.heard()
	var members map[string]bool
	for _, j := range jobs {
		if d.lookup(j.record.ID) != nil {
			delete(in.idle, j.record.ID)
			continue
		}
		if j.record.Owner == in.name() {
			if in.abandoned(j.record) {
				if err := d.takeOver(in, j); err != nil {
					return err
				}
				in.heard()
			}
			continue
		}
		if members == nil {
			// After the jobs: an owner that is missing here has been one, and is none any more.
			if members, err = d.opts.Cluster.Members(in.ctx); err != nil {
				return err
			}
		}
		if members[j.record.Owner] {
			continue
		}
		if err := d.takeOver(in, j); err != nil {
			return err
		}
		in.heard()
	}
	return nil
}
