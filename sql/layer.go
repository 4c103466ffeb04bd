package sql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/domain"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/session"
	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/member"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/kv/backup"
	"fastddl/load/jobs"
	"fastddl/sql/perftables"
)

// Options says what the SQL layer is opened on.
type Options struct {
	// Storage is TiDB's view of the store. It stays open when the layer is closed.
	Storage tidbkv.Storage
	// Builds is the store's view for index builds; nil leaves all of them to TiDB.
	Builds kv.Store
	// Node is the name of this server among others that build indexes in the store, for
	// people: its address. It is needed if the storage is one of a cluster.
	Node string
	// Cluster are those others; nil finds them by the storage's etcd, if it has one.
	Cluster member.Cluster
	// Globals receive the system variables that builds follow; nil makes some.
	Globals *config.Globals
	// Bus receives the events of builds; nil makes one.
	Bus *event.Bus
	// Resources are what builds share; nil makes some.
	Resources *ingest.Resources
	// StatisticsPatience is that of ddl.Options.
	StatisticsPatience time.Duration
	// Ingester does parts of index builds in another process; nil does all in this one.
	Ingester backfill.Ingester
	// Foreground measures the statements of clients; nil measures none.
	Foreground *flow.StatementMeter
	// TempDir is the folder that builds sort in; needed with Builds.
	TempDir string
	// Logger receives our part of the log; nil drops it.
	Logger *zap.Logger
	// Stage receives the stage that Open enters; nil drops it.
	Stage func(string)
	// Loader writes the rows of IMPORT INTO; nil leaves that to TiDB.
	Loader jobs.Loader
	// ImportHook is the Hook of jobs.Options.
	ImportHook func(ctx context.Context, p jobs.HookPoint) error
	// Backfiller and Hook are those of ddl.Options.
	Backfiller ddl.Backfiller
	Hook       func(ctx context.Context, p ddl.HookPoint) error
	// Backups takes the backups that clients ask for; nil leaves BACKUP to TiDB.
	Backups *backup.Taker
	// Now is the clock by which windows open and close; nil is the system's.
	Now func() time.Time
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Globals == nil {
		o.Globals = config.NewGlobals()
	}
	if o.Bus == nil {
		o.Bus = new(event.Bus)
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Stage == nil {
		o.Stage = func(string) {}
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Storage == nil {
		errs = append(errs, errors.New("Storage is missing"))
	}
	if o.Builds != nil && o.TempDir == "" {
		errs = append(errs, errors.New("TempDir is missing"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("sql: invalid options: %w", errors.Join(errs...))
	}
	return nil
}

// Layer is TiDB's SQL layer on one store.
type Layer struct {
	opts Options
	dom  *domain.Domain
	ddl  *ddl.DDL // nil if TiDB builds all indexes
	// imports run IMPORT INTO; nil if TiDB does.
	imports *jobs.Jobs
	// cluster is what was opened of the cluster; nil if there is none.
	cluster *member.Etcd
	clients *clients

	// dismiss ends that the tables of performance_schema are read; nil if they are not.
	dismiss func()

	closing sync.Once
	closed  error
}

// Open bootstraps the store if it is new, starts TiDB's background work on it, and
// goes on with the index builds of an earlier process. TiDB's configuration
// (config.StoreGlobalConfig) must have been set. One layer may be open on a
// storage, and TiDB's global state allows one layer with clients in a process.
func Open(ctx context.Context, opts Options) (_ *Layer, err error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	registerVariables()
	if err := perftables.Register(); err != nil {
		return nil, err
	}
	follow(opts.Globals)
	l := &Layer{opts: opts}
	l.clients = newClients(l.expires)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	opts.Stage("bootstrapping the SQL layer")
	if err := tidbddl.StartOwnerManager(ctx, opts.Storage); err != nil {
		return nil, fmt.Errorf("start the DDL owner: %w", err)
	}
	release := func() {}
	if storage, ok := opts.Storage.(gcDelayer); ok {
		release = storage.DelayGCWorker()
	}
	if l.dom, err = session.BootstrapSession(opts.Storage); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	opts.Stage("loading the statistics")
	if err := l.awaitStats(ctx); err != nil {
		return nil, err
	}
	l.dom.InfoSyncer().SetSessionManager(&noServer{l.clients})
	if storage, ok := opts.Storage.(readerKeeper); ok {
		storage.KeepReadable(l.dom.InfoSyncer().GetMinStartTS)
	}
	release()
	if opts.Builds == nil {
		return l, nil
	}
	opts.Stage("loading the index builds")
	others, err := l.findCluster()
	if err != nil {
		return nil, err
	}
	if l.ddl, err = ddl.New(ddl.Options{
		Storage: opts.Storage, Domain: l.dom, Builds: opts.Builds, Globals: opts.Globals, Bus: opts.Bus, Cluster: others,
		Resources: opts.Resources, Foreground: opts.Foreground, Logger: opts.Logger, TempDir: opts.TempDir, Backfiller: opts.Backfiller, Ingester: opts.Ingester, StatisticsPatience: opts.StatisticsPatience, Hook: opts.Hook, Now: opts.Now,
		QueuedImports: opts.Loader != nil,
	}); err != nil {
		return nil, err
	}
	// TiDB's background work reads the first of the two at any time; it is written
	// with the value that it has.
	l.dom.SetDDL(l.dom.DDL(), &executor{Executor: l.dom.DDLExecutor(), layer: l})
	if err := l.ddl.Start(ctx); err != nil {
		return nil, fmt.Errorf("start index builds: %w", err)
	}
	load := new(flow.LoadLog)
	endLoad := l.observeLoad(load)
	dismiss := perftables.Serve(l.dom, l.ddl.Sessions(), load)
	l.dismiss = func() { dismiss(); endLoad() }
	if opts.Loader == nil {
		return l, nil
	}
	if l.imports, err = jobs.New(jobs.Options{
		Domain: l.dom, Loader: opts.Loader, TempDir: opts.TempDir, Bus: opts.Bus, Logger: opts.Logger, Hook: opts.ImportHook,
	}); err != nil {
		return nil, err
	}
	l.clients.excludedBy(&l.imports.Exclusion)
	if err := l.imports.Start(ctx); err != nil {
		return nil, fmt.Errorf("start imports: %w", err)
	}
	return l, nil
}

// gcDelayer is a storage that can keep TiDB's garbage collection from running while TiDB
// loads its statistics, and when its domain is closed; see package kv/embedded.
type gcDelayer interface {
	DelayGCWorker() (release func())
	// StopGCWorker ends it, before the domain is closed.
	StopGCWorker()
}

// readerKeeper is a storage whose garbage collection must know the timestamps that are being
// read: TiDB publishes them in etcd, twice a minute, if there is one.
type readerKeeper interface {
	KeepReadable(oldest func() uint64)
}

// awaitStats waits until TiDB has loaded its statistics, if it does that; TiDB's server
// does not listen before that either. TiDB replaces the cache of statistics while it loads
// them, and a statement that is planned meanwhile panics now and then, which ends the
// process if it is one of TiDB's background work or a DDL statement. So nothing is
// executed here before that.
func (l *Layer) awaitStats(ctx context.Context) error {
	stats := l.dom.StatsHandle()
	if stats == nil || stats.Lease() < 0 {
		return nil
	}
	select {
	case <-stats.InitStatsDone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("load the statistics: %w", context.Cause(ctx))
	}
}

// findCluster returns the other nodes; nil if the store is one of a single process.
func (l *Layer) findCluster() (member.Cluster, error) {
	etcd := l.dom.GetEtcdClient()
	if l.opts.Cluster != nil || etcd == nil {
		return l.opts.Cluster, nil
	}
	var err error
	if l.cluster, err = member.Open(member.Options{Client: member.NewClient(etcd), Node: l.opts.Node, Logger: l.opts.Logger}); err != nil {
		return nil, err
	}
	return l.cluster, nil
}

// Domain is TiDB's domain of the store.
func (l *Layer) Domain() *domain.Domain { return l.dom }

// DDL builds the indexes; nil if all of them are left to TiDB.
func (l *Layer) DDL() *ddl.DDL { return l.ddl }

// Imports run IMPORT INTO; nil if TiDB does.
func (l *Layer) Imports() *jobs.Jobs { return l.imports }

// Driver makes sessions for pkg/server's clients.
func (l *Layer) Driver() server.IDriver {
	return &driver{IDriver: server.NewTiDBDriver(l.opts.Storage), layer: l}
}

// StopBuilds stops the index builds and imports where they are, which ends the statements that
// wait for them; they go on after the next Open. A server calls it before it waits
// for its clients.
func (l *Layer) StopBuilds() error {
	if l.ddl == nil {
		return nil
	}
	if l.imports == nil {
		return l.ddl.Close()
	}
	return errors.Join(l.imports.Close(), l.ddl.Close())
}

// killInterval is how often what TiDB does by itself is killed again.
const killInterval = 20 * time.Millisecond

// endAutoAnalyze ends the analysis that TiDB makes by itself, and waits for it. Domain.Close
// waits too late: it has closed the pool of goroutines for statistics by then, which drops what
// it is handed (Close in pkg/statistics/handle/handle.go), and an analysis that goes on to the
// next partition waits for that for ever.
func (l *Layer) endAutoAnalyze() {
	l.dom.StopAutoAnalyze()
	stats := l.dom.StatsHandle()
	if stats == nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stats.StatsAnalyze.Close()
	}()
	tick := time.NewTicker(killInterval)
	defer tick.Stop()
	for tracker := l.dom.SysProcTracker(); ; {
		for id := range tracker.GetSysProcessList() { // perhaps one that has just begun
			tracker.KillSysProcess(id)
		}
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

// Close stops the index builds where they are, and then TiDB's background work.
// Clients must have gone. The storage stays open.
func (l *Layer) Close() error {
	l.closing.Do(func() {
		l.closed = l.StopBuilds()
		if l.cluster != nil {
			l.closed = errors.Join(l.closed, l.cluster.Close())
		}
		if storage, ok := l.opts.Storage.(gcDelayer); ok {
			storage.StopGCWorker()
		}
		if l.dismiss != nil {
			l.dismiss()
		}
		if l.dom != nil {
			l.endAutoAnalyze()
			l.dom.Close()
		}
		tidbddl.CloseOwnerManager()
		unfollow(l.opts.Globals)
	})
	return l.closed
}
