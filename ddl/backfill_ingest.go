package ddl

import (
	"context"
	"sync"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
)

// IngestBackfiller is the Backfiller over package backfill. All jobs share one
// budget of memory, disk and write speed.
type IngestBackfiller struct {
	store     kv.Store
	globals   *config.Globals
	bus       *event.Bus
	resources *ingest.Resources

	mu   sync.Mutex
	last backfill.Result
}

// NewIngestBackfiller returns a backfiller of the tables in store.
func NewIngestBackfiller(store kv.Store, globals *config.Globals, bus *event.Bus) *IngestBackfiller {
	return &IngestBackfiller{store: store, globals: globals, bus: bus, resources: ingest.NewResources(globals)}
}

// Backfill implements Backfiller.
func (f *IngestBackfiller) Backfill(ctx context.Context, t BackfillTask) (rows int64, err error) {
	run := backfill.RunTransactional
	if t.Fast {
		run = backfill.Run
	}
	result, err := run(ctx, backfill.Options{
		Store: f.store, TempDir: t.TempDir, Globals: f.globals, Bus: f.bus,
		SaveCheckpoint: t.SaveCheckpoint, Resources: f.resources,
	}, backfill.Spec{
		JobID: t.JobID, Table: t.Table, Indexes: t.Indexes, TS: t.TS, Checkpoint: t.Checkpoint,
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = result
	return result.Rows, err
}

// Usage is what the running builds occupy.
func (f *IngestBackfiller) Usage() ingest.Usage { return f.resources.Usage() }

// LastResult is what the build that ended last says of itself, for benchmarks.
func (f *IngestBackfiller) LastResult() backfill.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}
