package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	tidb "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/domain"
	tidbserver "github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/store/helper"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/backfill/worker"
	"fastddl/config"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/memory"
	"fastddl/kv"
	"fastddl/load"
	"fastddl/load/jobs"
	"fastddl/sql"
)

// NodeOptions say what a node is opened with.
type NodeOptions struct {
	// Config must have been validated.
	Config config.Config
	Log    *Log
	// Version and GitHash describe the build; they are shown to clients.
	Version, GitHash string
	// Listeners receive every event.
	Listeners []event.Listener
	// Port and StatusPort are those of the listeners.
	Port, StatusPort int
	// WithoutBuilds opens the node without index builds: those of the store stay as they are.
	WithoutBuilds bool
	// WorkerCommand is that of Options.
	WorkerCommand string
	// Stage, if set, receives the stages of opening the node.
	Stage func(string)
}

// Node is everything below the listeners: a store, TiDB's SQL layer over it, and
// the index builds.
type Node struct {
	opts       NodeOptions
	cfg        config.Config
	globals    *config.Globals
	bus        *event.Bus
	foreground *flow.StatementMeter
	store      *store
	tempDir    string
	// resources are what index builds share; nil if they are TiDB's.
	resources *ingest.Resources
	layer     *sql.Layer
	driver    *fileGuard
	parts     closers
	// stuck says that the node is opening still, and cannot be closed.
	stuck bool
}

// openGrace is left to the SQL layer to open after the process was asked to end. It
// takes a second or two, unless the store does not answer.
const openGrace = 10 * time.Second

// errStuckOpen says that the SQL layer did not open when the process was to end.
var errStuckOpen = errors.New("the store does not answer")

// newNode sets the process up for a node, whose Close undoes that. On error nothing stays.
func newNode(opts NodeOptions) (_ *Node, err error) {
	if opts.Stage == nil {
		opts.Stage = func(string) {}
	}
	cfg := opts.Config
	n := &Node{opts: opts, cfg: cfg, globals: config.NewGlobals(), bus: &event.Bus{}, foreground: new(flow.StatementMeter)}
	for _, l := range opts.Listeners {
		n.bus.Subscribe(l)
	}
	t, err := tidbConfig(cfg, opts.Version, opts.Port, opts.StatusPort)
	if err != nil {
		return nil, err
	}
	stopProcess, err := startProcess(t, opts.GitHash, memory.Divide(int64(cfg.MemoryLimit)))
	if err != nil {
		return nil, err
	}
	n.parts.add(stopProcess)
	if cfg.Security.RequireSecureTransport {
		n.parts.add(requireTLS())
	}
	n.parts.add(opts.Log.followMaxDays())
	return n, nil
}

// open opens the store, which is made if it does not exist, and the SQL layer,
// and goes on with the jobs that were running. On error the node is to be closed. If
// ctx has ended, which is for a process that is to end, a store that does not
// answer is left as it is.
func (n *Node) open(ctx context.Context) (err error) {
	defer func() { n.stuck = errors.Is(err, errStuckOpen) }()
	cfg, log := n.cfg, n.opts.Log
	budget := memory.Divide(int64(cfg.MemoryLimit))
	if n.store, err = openStore(ctx, cfg, n.opts, budget, n.globals); err != nil {
		return err
	}
	n.parts.add(n.store.close)
	if n.opts.WithoutBuilds {
		n.store.builds = nil
	}
	if err = n.openTempDir(cfg.TempDir); err != nil {
		return err
	}
	log.file.release() // the folder is a store's now
	if err = log.openStatementLogs(cfg.Log, tidb.GetGlobalConfig().Log.GeneralLogFile); err != nil {
		return err
	}
	return n.awaitSQL(ctx, budget, log.Logger)
}

// awaitSQL opens the SQL layer. It does not give up half way because ctx ends, but
// does not wait for long then: TiDB asks a cluster that does not answer again and again.
func (n *Node) awaitSQL(ctx context.Context, budget memory.Budget, log *zap.Logger) error {
	opened := make(chan error, 1)
	go func() {
		var err error
		defer func() { opened <- err }()
		defer errs.Contain(&err)
		err = n.openSQL(context.WithoutCancel(ctx), budget, log)
	}()
	select {
	case err := <-opened:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-opened:
		return err
	case <-time.After(openGrace):
		return fmt.Errorf("path: %w: %w", errStuckOpen, context.Cause(ctx))
	}
}

// openTempDir takes the node's own folder in dir.
func (n *Node) openTempDir(dir string) error {
	lock, err := lockTempDir(dir, n.store.id)
	if err != nil {
		return err
	}
	n.parts.add(lock.Release)
	n.tempDir = filepath.Join(lock.Dir(), "ddl")
	if err := os.MkdirAll(n.tempDir, 0o700); err != nil {
		return fmt.Errorf("temp-dir: %w", err)
	}
	release, err := useTempDir(filepath.Join(lock.Dir(), "tidb"))
	if err != nil {
		return err
	}
	n.parts.add(release)
	return nil
}

// openSQL opens TiDB's SQL layer on the store, with index builds if they are ours.
func (n *Node) openSQL(ctx context.Context, budget memory.Budget, log *zap.Logger) (err error) {
	if n.store.builds != nil {
		n.resources = ingest.NewResources(n.globals, 0)
		n.resources.LimitMemory(budget.Sorting)
		n.resources.Govern(flow.NewLoadSampler(n.foreground), n.foreground)
	}
	if n.cfg.Store == config.StorePebble { // a cluster's variables are no matter of one node
		quota := budget.StatementQuota()
		variable.SetSysVar(variable.TiDBMemQuotaQuery, strconv.FormatInt(quota, 10))
		// A session that uses less is not ended, however much all use together.
		least := min(quota/4, variable.DefTiDBServerMemoryLimitSessMinSize)
		variable.SetSysVar(variable.TiDBServerMemoryLimitSessMinSize, strconv.FormatInt(least, 10))
	}
	registerSecureFilePriv(n.cfg.Security.SecureFilePriv)
	var loader jobs.Loader
	if n.cfg.Store == config.StorePebble {
		loader = jobs.NewLoader(load.Options{Store: n.store.builds, Globals: n.globals, Bus: n.bus, Resources: n.resources, TempDir: n.tempDir})
	}
	if n.layer, err = sql.Open(ctx, sql.Options{
		Storage: n.store.storage, Builds: n.store.builds, Node: n.store.node, Globals: n.globals, Bus: n.bus, Resources: n.resources,
		Ingester: n.workers(log), Foreground: n.foreground, TempDir: n.tempDir, Logger: log, Stage: n.opts.Stage, Backups: n.store.backups,
		Loader: loader,
	}); err != nil {
		return fmt.Errorf("open the SQL layer: %w", err)
	}
	n.parts.add(n.layer.Close)
	n.driver, err = newFileGuard(n.layer.Driver(), n.cfg.Security.SecureFilePriv, n.cfg.Store == config.StorePebble)
	return err
}

// workers returns what builds indexes in processes of their own; nil if nothing does.
func (n *Node) workers(log *zap.Logger) backfill.Ingester {
	embedded, ok := n.store.builds.(worker.Store)
	if !ok || n.opts.WorkerCommand == "" || !worker.Supported {
		return nil
	}
	log = log.Named("worker")
	return worker.NewHost(worker.Options{
		Store: embedded, MemTableBytes: n.store.memTable, Globals: n.globals, Logger: log,
		Foreground: func() bool { return n.resources.Governor().Foreground }, Start: worker.Starter(n.opts.WorkerCommand, n.foreground, log),
	})
}

// serve gives the domain, its background work and the guard of connections the clients of srv.
func (n *Node) serve(srv *tidbserver.Server, clients *clientList) {
	dom := n.layer.Domain()
	srv.SetDomain(dom)
	kill := func(connID uint64) { clients.Kill(connID, false, false, false) }
	n.driver.kill.Store(&kill)
	dom.InfoSyncer().SetSessionManager(n.layer.SessionManager(clients))
	go dom.ExpensiveQueryHandle().SetSessionManager(clients).Run()
	go dom.MemoryUsageAlarmHandle().SetSessionManager(clients).Run()
	go dom.ServerMemoryLimitHandle().SetSessionManager(clients).Run()
}

// Domain is TiDB's schema, statistics and background work.
func (n *Node) Domain() *domain.Domain { return n.layer.Domain() }

// Builds is the store as index builds see it; nil if they are TiDB's.
func (n *Node) Builds() kv.Store { return n.store.builds }

// TempDir is the folder that index builds sort in.
func (n *Node) TempDir() string { return n.tempDir }

// UnfinishedJobs describes the index builds that have not ended.
func (n *Node) UnfinishedJobs() []status.JobInfo {
	if d := n.layer.DDL(); d != nil {
		return d.Unfinished()
	}
	return nil
}

// UnfinishedImports describes the IMPORT INTO that have not ended; nil on a cluster, where they are TiDB's.
func (n *Node) UnfinishedImports() []jobs.Unfinished {
	if imports := n.layer.Imports(); imports != nil {
		return imports.Unfinished()
	}
	return nil
}

// stopJobs lets no job go on; they do at the next start.
func (n *Node) stopJobs() error {
	n.layer.Domain().StopAutoAnalyze()
	return n.layer.StopBuilds()
}

// healthy is nil while the store can execute statements.
func (n *Node) healthy() error {
	if err := n.store.healthy(); err != nil {
		return err
	}
	if n.cfg.Store == config.StoreTiKV && n.layer.Domain().IsLostConnectionToPD() { // then TiDB takes no clients
		return errors.New("the connection to PD is lost")
	}
	return nil
}

func (n *Node) collectors() []prometheus.Collector {
	c := append(slices.Clone(n.store.collectors), newRunningJobs(func() int { return len(n.UnfinishedJobs()) }))
	if n.resources != nil {
		c = append(c, newGovernorCollector(n.resources.Governor))
	}
	return c
}

// helperStorage is the storage as TiDB's HTTP API wants it.
func (n *Node) helperStorage() helper.Storage { return n.store.storage.(helper.Storage) }

// Close closes everything. No statement may be running.
func (n *Node) Close() error {
	if n.stuck {
		return nil
	}
	return n.parts.close()
}
