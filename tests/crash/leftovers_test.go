package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/mdl"
	"fastddl/event"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/sql/genexpr"
)

// requireNothingLeft opens the store of a server that has ended, as the next
// server would, but for old versions, which are not kept, and waits until what
// the jobs dropped is deleted. Then the store must hold nothing that belongs to
// no index, and nothing may hold garbage collection up.
func (r *run) requireNothingLeft(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	store, err := pebblekv.Open(r.dir, pebblekv.Options{
		CacheBytes: 16 << 20,
		// After crashes timestamps run ahead of the clock. The safe point does not
		// go beyond those that were given out.
		GCLifeTime: func() time.Duration { return -time.Hour },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	cat, err := catalog.Open(ctx, store, catalog.WithExpressions(genexpr.New()))
	require.NoError(t, err)
	globals, bus := config.NewGlobals(), &event.Bus{}
	jobs, err := ddl.New(ddl.Options{
		Catalog: cat, Globals: globals, Bus: bus, TempDir: filepath.Join(r.dir, "tmp"), CleanInterval: 10 * time.Millisecond,
		Locks:      mdl.NewManager(cat, mdl.Options{Enabled: func() bool { return true }}),
		Backfiller: ddl.NewBackfiller(backfill.Options{Store: store, Globals: globals, Bus: bus}),
	})
	require.NoError(t, err)
	require.NoError(t, jobs.Start(ctx))
	defer func() { require.NoError(t, jobs.Close()) }()

	holds, err := store.GCHolds(ctx)
	require.NoError(t, err)
	require.Empty(t, holds, "holds on garbage collection are left")
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		require.NoError(t, store.RunGC(ctx))
		err := r.checkNothingLeft(ctx, cat)
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline), "%v", err)
	}
}

// deleteRangesHash is where package ddl notes what is still to be deleted.
var deleteRangesHash = []byte("FastDDLDeleteRanges")

func (r *run) checkNothingLeft(ctx context.Context, cat *catalog.Catalog) error {
	err := cat.View(ctx, func(_ context.Context, m *catalog.Mutation) error {
		ranges, err := m.Structure().HGetAll(deleteRangesHash)
		if err == nil && len(ranges) > 0 {
			err = fmt.Errorf("%d ranges are still to be deleted, among them %s", len(ranges), ranges[0].Value)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range r.tables {
		entry, ok := cat.Current().Table("test", t.name)
		if !ok {
			return fmt.Errorf("table %s is gone", t.name)
		}
		if err := checkIndexKeys(ctx, cat.Store(), entry); err != nil {
			return err
		}
	}
	return nil
}

// checkIndexKeys verifies that every key among the table's indexes belongs to one
// that there is.
func checkIndexKeys(ctx context.Context, store kv.Store, entry *catalog.Table) error {
	known := make(map[int64]bool)
	for _, idx := range entry.Info.Indices {
		known[idx.ID] = true
	}
	ts, err := store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	snap, err := store.Snapshot(ctx, ts)
	if err != nil {
		return err
	}
	defer func() { _ = snap.Close() }()
	it, err := snap.Iter(kv.PrefixRange(tablecodec.GenTableIndexPrefix(entry.Info.ID)))
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for it.Valid() {
		_, indexID, _, err := tablecodec.DecodeKeyHead(it.Key())
		if err != nil {
			return err
		}
		if !known[indexID] {
			return fmt.Errorf("table %s: a key of index %d is left, which does not exist: %x", entry.Info.Name.O, indexID, it.Key())
		}
		if err := it.Next(); err != nil {
			return err
		}
	}
	return nil
}
