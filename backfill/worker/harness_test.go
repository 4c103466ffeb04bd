package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/config"
	"fastddl/event"
)

// bed is a table, and a host of workers for its builds.
type bed struct {
	*backfilltest.Fixture
	indexes []*model.IndexInfo // that are built
	globals *config.Globals
	bus     *event.Bus
	opts    Options
	// saved is the last checkpoint.
	mu    sync.Mutex
	saved []byte
}

func newBed(f *backfilltest.Fixture, indexes ...*model.IndexInfo) *bed {
	f.Table.Indices = append(f.Table.Indices, indexes...)
	b := &bed{Fixture: f, indexes: indexes, globals: config.NewGlobals(), bus: new(event.Bus)}
	b.opts = Options{Store: f.Store, Globals: b.globals, Start: Inside(nil), Foreground: func() bool { return false }}
	_, _, err := b.globals.Set(config.Worker, config.WorkerOn)
	require.NoError(f.T, err)
	return b
}

// task is a build of all indexes at a new snapshot.
func (b *bed) task() encode.Task {
	return encode.Task{JobID: 77, Table: b.Table, Indexes: b.indexes, TS: b.TS(), Location: time.UTC}
}

// run builds; host nil builds without a worker.
func (b *bed) run(ctx context.Context, task encode.Task, host *Host, change ...func(*backfill.Options)) (backfill.Result, error) {
	opts := backfill.Options{
		Store: b.Store, TempDir: b.Temp, Globals: b.globals, Bus: b.bus, TaskBytes: 1,
		SaveCheckpoint: func(_ context.Context, data []byte) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.saved = slices.Clone(data)
			return nil
		},
	}
	if host != nil {
		opts.Ingester = host
	}
	for _, fn := range change {
		fn(&opts)
	}
	b.mu.Lock()
	saved := b.saved
	b.mu.Unlock()
	return backfill.Run(ctx, opts, backfill.Spec{Task: task, Checkpoint: saved, Verify: config.VerifyAuto})
}

// requireClean checks that nothing is left of workers.
func (b *bed) requireClean() {
	b.T.Helper()
	b.RequireNoTempFiles()
	left, err := os.ReadDir(filepath.Join(b.Store.Dir(), "checkpoint"))
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(b.T, err)
	}
	require.Empty(b.T, left, "checkpoints are left in the store's folder")
}

// plainBed is a bed of a table with n rows and the given indexes.
func plainBed(t testing.TB, n int, indexes ...*model.IndexInfo) *bed {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	f.Load(n)
	return newBed(f, indexes...)
}
