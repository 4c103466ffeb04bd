package model

import (
	"context"
	"fmt"
	"math/rand"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/parser"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver" // literals in parsed statements
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/mdl"
	"fastddl/event"
	"fastddl/kv/pebblekv"
)

// node is a server without its SQL front.
type node struct {
	store   *pebblekv.Store
	catalog *catalog.Catalog
	locks   *mdl.Manager
	ddl     *ddl.DDL
	globals *config.Globals
	// rowID gives out hidden row IDs.
	rowID atomic.Int64
}

// openNode opens a node with random settings on the store in dir.
func openNode(t *testing.T, dir string, rng *rand.Rand) *node {
	t.Helper()
	n := &node{globals: config.NewGlobals()}
	set := func(name string, values ...string) {
		_, _, err := n.globals.Set(name, values[rng.Intn(len(values))])
		require.NoError(t, err)
	}
	set(config.ReorgWorkerCount, "1", "2", "4")
	set(config.EnableFastReorg, "ON", "ON", "ON", "OFF")
	set(config.EnableMetadataLock, "ON", "ON", "OFF")
	set(config.DiskQuota, "16MiB", "1GiB")
	set(config.MemoryQuota, "1MiB", "64MiB")

	var err error
	n.store, err = pebblekv.Open(filepath.Join(dir, "store"), pebblekv.Options{
		DisableSync: true,
		CacheBytes:  16 << 20,
		GCLifeTime:  func() time.Duration { return 100 * time.Millisecond },
	})
	require.NoError(t, err)
	n.catalog, err = catalog.Open(t.Context(), n.store)
	require.NoError(t, err)
	n.locks = mdl.NewManager(n.catalog, mdl.Options{Enabled: func() bool { return n.globals.Bool(config.EnableMetadataLock) }})
	bus := new(event.Bus)
	n.ddl, err = ddl.New(ddl.Options{
		Catalog: n.catalog, Locks: n.locks, Globals: n.globals, Bus: bus,
		Backfiller:    ddl.NewBackfiller(backfill.Options{Store: n.store, Globals: n.globals, Bus: bus}),
		TempDir:       filepath.Join(dir, "temp"),
		CleanInterval: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	require.NoError(t, n.ddl.Start(t.Context()))
	return n
}

func (n *node) close(t *testing.T) {
	t.Helper()
	require.NoError(t, n.ddl.Close())
	require.NoError(t, n.store.Close())
}

// exec runs a DDL statement to its end.
func (n *node) exec(ctx context.Context, sql string) error {
	stmt, err := parser.New().ParseOneStmt(sql, "", "")
	if err != nil {
		return fmt.Errorf("parse %q: %w", sql, err)
	}
	_, err = n.ddl.Execute(ctx, ddl.Request{Stmt: stmt, SQL: sql, CurrentDB: dbName, Loc: time.UTC})
	return err
}

// collectGarbage runs GC over and over until ctx ends.
func (n *node) collectGarbage(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := n.store.RunGC(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// requireNothingLeft waits until no snapshot needs what was dropped, and it has
// been deleted.
func (n *node) requireNothingLeft(t *testing.T, table string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		require.NoError(t, n.store.RunGC(t.Context()))
		err := n.checkNothingLeft(t.Context(), table)
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline), "%v", err)
		time.Sleep(50 * time.Millisecond)
	}
}
