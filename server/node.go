package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/catalog"
	"fastddl/check"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/mdl"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/foreground"
	"fastddl/internal/memory"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/sql"
	"fastddl/sql/genexpr"
	"fastddl/sql/stmt"
	"fastddl/sql/sysvar"
)

// NodeOptions say what a node is opened with.
type NodeOptions struct {
	// Config must have been validated.
	Config config.Config
	// Logger receives the log; nil drops it.
	Logger *zap.Logger
	// Version is the build's version, shown to clients.
	Version string
	// Listeners receive every event.
	Listeners []event.Listener
}

// EnsureDefaults fills in what is not set.
func (o *NodeOptions) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
}

// Node is everything below the listeners: a store with its schema, the DDL
// owner and the SQL engine over it. All fields are set and stay as they are.
type Node struct {
	Store   kv.Store
	Catalog *catalog.Catalog
	Globals *config.Globals
	Bus     *event.Bus
	Locks   *mdl.Manager
	DDL     *ddl.DDL
	// Foreground measures the statements of clients, which builds give way to.
	Foreground *foreground.Meter
	// Backfiller builds the indexes of DDL's jobs.
	Backfiller *ddl.IndexBackfiller
	Engine     *sql.Engine

	parts closers
}

// OpenNode opens the store, which is made if it does not exist, loads schema
// and variables, and starts the DDL owner. On error nothing stays open.
func OpenNode(ctx context.Context, opts NodeOptions) (_ *Node, err error) {
	opts.EnsureDefaults()
	cfg := opts.Config
	n := &Node{Globals: config.NewGlobals(), Bus: &event.Bus{}, Foreground: new(foreground.Meter)}
	for _, l := range opts.Listeners {
		n.Bus.Subscribe(l)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.parts.close())
		}
	}()

	budget := memory.Divide(int64(cfg.MemoryLimit))
	budget.LimitHeap()
	if n.Store, err = openStore(cfg, budget, n.Globals, opts.Logger); err != nil {
		return nil, err
	}
	n.parts.add(n.Store.Close)
	if err = ensureTempDir(cfg.TempDir); err != nil {
		return nil, err
	}
	if n.Catalog, err = catalog.Open(ctx, n.Store, catalog.WithExpressions(genexpr.New())); err != nil {
		return nil, fmt.Errorf("open the schema: %w", err)
	}
	if err = loadVariables(ctx, n.Catalog, n.Globals, opts.Logger); err != nil {
		return nil, err
	}
	n.Locks = mdl.NewManager(n.Catalog, mdl.Options{
		Enabled:     func() bool { return n.Globals.Bool(config.EnableMetadataLock) },
		IdleTimeout: func() time.Duration { return n.Globals.Duration(config.IdleBlockerTimeout) },
		Bus:         n.Bus,
	})
	resources := ingest.NewResources(n.Globals, 0)
	resources.LimitMemory(budget.Sorting)
	resources.Govern(ingest.NewLoadSampler(n.Store, n.Foreground), n.Foreground)
	n.Backfiller = ddl.NewBackfiller(backfill.Options{Store: n.Store, Globals: n.Globals, Bus: n.Bus, Resources: resources})
	if n.DDL, err = ddl.New(ddl.Options{
		Catalog: n.Catalog, Locks: n.Locks, Globals: n.Globals, Bus: n.Bus, Backfiller: n.Backfiller, TempDir: cfg.TempDir,
	}); err != nil {
		return nil, fmt.Errorf("open the DDL job queue: %w", err)
	}
	n.parts.add(n.DDL.Close)
	if err = n.DDL.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the DDL owner: %w", err)
	}
	if n.Engine, err = sql.New(ctx, sql.Options{
		Catalog: n.Catalog, Locks: n.Locks, Globals: n.Globals, Version: opts.Version, SecureFilePriv: cfg.Security.SecureFilePriv,
		DDL: stmt.NewDDL(n.DDL), Checker: stmt.NewChecker(n.Catalog, check.Options{}),
	}); err != nil {
		return nil, fmt.Errorf("start the SQL engine: %w", err)
	}
	n.parts.add(n.Engine.Close)
	return n, nil
}

func openStore(cfg config.Config, budget memory.Budget, globals *config.Globals, log *zap.Logger) (kv.Store, error) {
	store, err := pebblekv.Open(cfg.Path, pebblekv.Options{
		DisableSync:   !cfg.Pebble.Sync,
		CacheBytes:    cmp.Or(int64(cfg.Pebble.CacheSize), budget.BlockCache),
		MemTableBytes: budget.MemTable,
		GCLifeTime:    func() time.Duration { return globals.Duration(config.GCLifeTime) },
		GCRunInterval: func() time.Duration { return globals.Duration(config.GCRunInterval) },
		Logger:        log.Named("pebble"),
	})
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	return store, nil
}

func loadVariables(ctx context.Context, cat *catalog.Catalog, globals *config.Globals, log *zap.Logger) error {
	ignored, err := sysvar.Load(ctx, cat, globals)
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		log.Warn("persisted variables that this version does not take stay at their defaults", zap.Strings("variables", ignored))
	}
	return nil
}

// ensureTempDir makes the folder for index builds and makes sure that it can
// be written: better now than in the middle of a job.
func ensureTempDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("temp-dir: %w", err)
	}
	probe, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return fmt.Errorf("temp-dir: %w", err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Close stops the DDL owner at a checkpoint and closes everything. No statement
// may be running.
func (n *Node) Close() error { return n.parts.close() }
