package ddl

import (
	"context"
	"fmt"

	"fastddl/catalog"
	"fastddl/ddl/job"
	"fastddl/ingest"
)

// Alteration is what ADMIN ALTER DDL JOBS changes of a job's settings; nil leaves
// one as it is. See job.Settings for units and ranges.
type Alteration struct {
	Threads       *int
	BatchSize     *int
	MaxWriteSpeed *int64
}

func (a Alteration) applyTo(s *job.Settings) {
	if a.Threads != nil {
		s.Threads = *a.Threads
	}
	if a.BatchSize != nil {
		s.BatchSize = *a.BatchSize
	}
	if a.MaxWriteSpeed != nil {
		s.MaxWriteSpeed = *a.MaxWriteSpeed
	}
}

// Alter changes the settings of a job that builds indexes, durably and at once,
// whatever the job does or waits for.
func (d *DDL) Alter(ctx context.Context, id int64, a Alteration) error {
	t := d.find(id)
	if t == nil {
		return notRunning(id)
	}
	return t.alter(ctx, a)
}

// notRunning and notAlterable have TiDB's words, and no number of their own
// either.
func notRunning(id int64) error { return fmt.Errorf("ddl job %d is not running", id) }

func notAlterable(j *job.Job) error {
	return fmt.Errorf("unsupported DDL operation: %s. Supported DDL operations are: ADD INDEX and ADD PRIMARY KEY", j.Type)
}

func (t *task) alter(ctx context.Context, a Alteration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.settle(ctx); err != nil {
		return err
	}
	switch j := t.machine.Job(); {
	case t.lost != nil:
		return t.lost
	case j.Ended():
		return notRunning(t.id)
	case !j.Backfills():
		return notAlterable(j)
	}
	err := t.write(ctx, t.machine.Job().Step, func(_ context.Context, _ *catalog.Mutation, after *job.Job) error {
		a.applyTo(&after.Settings)
		return nil
	})
	if t.unsettled != nil {
		t.wake()
	}
	return err
}

// liveSettings are a job's settings as its build takes them.
func liveSettings(s job.Settings) ingest.Settings {
	return ingest.Settings{Weight: s.Weight(), Workers: s.Threads, BatchRows: s.BatchSize, WriteSpeed: s.MaxWriteSpeed}
}
