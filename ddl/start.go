package ddl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
)

// New returns a component that is not started.
func New(opts Options) (*DDL, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	d := &DDL{
		opts: opts, nudge: make(chan struct{}), trim: make(chan struct{}, 1), unknown: make(map[int64]bool),
	}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.sessions = session.NewPool(d.ctx, opts.Domain)
	d.reports = &status.Tables{Sessions: d.sessions, Domain: opts.Domain, Logger: opts.Logger}
	d.waits = &status.Waits{
		Sessions: d.sessions, Domain: opts.Domain, Globals: opts.Globals, Bus: opts.Bus, Logger: opts.Logger,
		Clustered: d.clustered(), Spawn: d.workers.Go, Contain: d.contained,
	}
	d.records = &records.Tables{Sessions: d.sessions, Logger: opts.Logger}
	d.node = dist.NewNode(dist.Options{
		Ctx: d.ctx, Spawn: d.workers.Go, Contain: d.contained,
		Sessions: d.sessions, Cluster: opts.Cluster, Builds: opts.Builds, Globals: opts.Globals, Bus: opts.Bus, Logger: opts.Logger,
		TempDir: opts.TempDir, Scope: opts.Scope, Now: opts.Now,
		Builder: opts.Backfiller, BuildTask: d.buildTask, RemoveFiles: d.removeFiles,
		Readable: func(ctx context.Context) error {
			_, err := d.records.Load(ctx)
			return err
		},
		Adopt: d.adopt, Answer: d.answerRequests, AwaitJobs: d.awaitTasks,
		Obsolete: []string{records.DeleteOldRequests, schema.DeleteTakenVersions},
	})
	return d, nil
}

// Start makes our tables if they are not there, clears away what an earlier
// process left behind, and goes on with its jobs; on a cluster also with those that
// other nodes have left.
func (d *DDL) Start(ctx context.Context) error {
	if err := d.reports.ServeReaders(); err != nil {
		return err
	}
	if err := d.prepareTables(ctx); err != nil {
		return err
	}
	d.versions = schema.StartVersions(d.opts.Domain, d.contained)
	// The holds before the jobs: a job has its record before it holds anything.
	holds, err := d.opts.Builds.GCHolds(ctx)
	if err != nil {
		return fmt.Errorf("list GC holds: %w", err)
	}
	jobs, err := d.records.Load(ctx)
	if err != nil {
		return fmt.Errorf("load index builds: %w", err)
	}
	live := make(map[int64]bool, len(jobs))
	for _, j := range jobs {
		live[j.Record.ID] = true
	}
	if err := d.removeLeftovers(ctx, holds, live); err != nil {
		return err
	}
	d.unsubscribe = d.opts.Bus.Subscribe(d.onEvent)
	d.inside(d.keepHistory)
	d.inside(func() { _ = d.contained("the number of cores", func() error { d.keepCores(); return nil }) })
	if d.clustered() {
		return d.node.Join(ctx)
	}
	lease := d.node.Begin(nil)
	for _, j := range jobs {
		if !d.knows(j.Record) {
			continue
		}
		if err := d.launch(newTask(d, lease, job.ResumeMachine(j.Record), j.Settings)); err != nil {
			return err
		}
	}
	return nil
}

// removeLeftovers removes the files of all jobs, none of which runs here yet, and the GC
// holds of those that are not live: their end was recorded before everything of them was
// gone.
func (d *DDL) removeLeftovers(ctx context.Context, holds map[string]uint64, live map[int64]bool) error {
	entries, err := os.ReadDir(d.opts.TempDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read temp folder: %w", err)
	}
	for _, e := range entries {
		id, ok := jobOfDir(e.Name())
		if !ok {
			continue
		}
		if err := d.removeFiles(id); err != nil {
			return err
		}
	}
	if d.clustered() { // those of jobs that have ended are to expire, see lateTTL
		return nil
	}
	return d.releaseHolds(ctx, holds, func(id int64) bool { return live[id] })
}

// Close stops all jobs where they are and waits for that. They go on after the
// next Start on the same store, or on another node. Closing twice does nothing.
func (d *DDL) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel(ErrClosed)
	d.workers.Wait()
	d.reports.DismissReaders()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unsubscribe != nil {
		d.unsubscribe()
		d.unsubscribe = nil
	}
	if d.versions != nil {
		d.versions.Stop()
	}
	return nil
}

// launch starts the goroutine of a job. It fails with ErrClosed, or with records.ErrLost if the
// job's lease has ended.
func (d *DDL) launch(t *task) error {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return ErrClosed
	}
	return d.node.During(t.lease, func() error { return d.launchNow(t) })
}

// launchNow is launch while the lease is the node's.
func (d *DDL) launchNow(t *task) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	if slices.ContainsFunc(d.tasks, func(x *task) bool { return x.id == t.id }) {
		return records.ErrLost // one of the two has another epoch; what runs finds out by itself
	}
	d.tasks = append(d.tasks, t)
	slices.SortFunc(d.tasks, func(a, b *task) int { return int(a.id - b.id) })
	d.views.Store(t.id, &t.view)
	d.workers.Go(func() {
		defer d.left(t)
		t.run(t.lease.Ctx)
	})
	return nil
}

// left takes a job off whose goroutine ends.
func (d *DDL) left(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks = slices.DeleteFunc(d.tasks, func(x *task) bool { return x == t })
	d.views.Delete(t.id)
	close(d.nudge)
	d.nudge = make(chan struct{})
}
