package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tidb "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/plugin"
	"github.com/pingcap/tidb/pkg/privilege/privileges"
	tidbserver "github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/util/topsql"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"fastddl/api"
	"fastddl/config"
	"fastddl/console"
	"fastddl/event"
	"fastddl/internal/memory"
	"fastddl/kv"
)

// Options say what to start.
type Options struct {
	// Config must have been validated.
	Config config.Config
	// Log is the log of the process; nil logs errors to standard error.
	Log *Log
	// Version and GitHash describe the build; they are shown to clients.
	Version string
	GitHash string
	// Events, if set, receives every event besides log and metrics.
	Events event.Listener
	// WorkerCommand is the command of this program that runs worker.Main; without one the server builds indexes by itself.
	WorkerCommand string
}

// EnsureDefaults fills in what is not set.
func (o *Options) EnsureDefaults() error {
	if o.Version == "" {
		o.Version = "unknown"
	}
	if o.GitHash == "" {
		o.GitHash = "unknown"
	}
	if o.Log != nil {
		return nil
	}
	var err error
	o.Log, err = InitLogging(config.Log{Level: "error", Format: "text"})
	return err
}

// Server is a running fastddl node.
type Server struct {
	opts    Options
	log     *Log
	addr    net.Addr
	started time.Time
	opening *opening
	// ready is set while the server accepts statements, draining from the begin of Shutdown.
	ready, draining atomic.Bool
	tidb            *tidbserver.Server
	// clients guards the list of tidb's clients for its background readers.
	clients *clientList
	// ended receives the error of TiDB's server when its listeners have ended, and that
	// of the store when it has failed.
	ended chan error
	node  *Node
	api   *api.API
	// apiSessions are those of requests to api.
	apiSessions *apiSessions
	status      *statusServer // nil if switched off
	// statusScheme is that of the URLs of the status server.
	statusScheme string
	// statusAuthorities have signed the certificates of the cluster's servers; nil without TLS on the status port.
	statusAuthorities *x509.CertPool
	parts             closers
}

// Start starts a node and returns when it accepts statements. An error names
// its cause in one line, and leaves nothing running. A process has one
// server at a time.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	if err := opts.EnsureDefaults(); err != nil {
		return nil, err
	}
	cfg := opts.Config
	s := &Server{opts: opts, log: opts.Log, ended: make(chan error, 2), statusScheme: "http", opening: newOpening(opts.Log.Logger, time.Now)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.parts.close())
		}
	}()

	// Both ports are bound before the store is touched. TiDB binds the MySQL port itself: port.share lets it.
	port, err := reservePort("host", "port", cfg.Host, cfg.Port)
	if err != nil {
		return nil, err
	}
	defer port.release()
	s.addr = port.addr
	var statusListener net.Listener
	if cfg.Status.ReportStatus {
		if statusListener, err = listen("status-host", "status-port", cfg.Status.StatusHost, cfg.Status.StatusPort); err != nil {
			return nil, err
		}
		s.parts.add(func() error { return ignoreClosed(statusListener.Close()) })
	}
	s.log.Info("server is starting", zap.Stringer("address", s.addr), zap.String("status", addressOf(statusListener)),
		zap.String("store", cfg.Store), zap.String("path", cfg.Path), zap.String("version", opts.Version))
	ticker := time.NewTicker(openingInterval)
	defer ticker.Stop()
	defer s.opening.report(ticker.C)()
	if err := s.open(ctx, port.addr.Port, statusListener); err != nil {
		return nil, err
	}
	s.opening.enter("accepting clients")
	if err = errors.Join(port.share(), s.run()); err != nil {
		return nil, err
	}
	s.watchPeers(tidb.GetGlobalConfig().ProxyProtocol.Networks != "")
	s.watchStore()
	s.started = time.Now()
	s.ready.Store(true)
	s.log.Info("server is ready", zap.Stringer("address", s.addr), zap.String("store", cfg.Store), zap.String("path", cfg.Path),
		zap.String("version", opts.Version), zap.Duration("sinceStart", time.Since(s.opening.began)))
	return s, nil
}

// open opens the node, and TiDB's server over it. Meanwhile the status port, if it is on, shows the stages of the start.
func (s *Server) open(ctx context.Context, port int, statusListener net.Listener) (err error) {
	metrics, jobs := newMetrics(), newJobMetrics(time.Now)
	metrics.registry.MustRegister(jobs, newHealthy(s.Health), newMemoryLimit(memory.Divide(int64(s.opts.Config.MemoryLimit))))
	imports := newImportMetrics(s.unfinishedImports)
	listeners := []event.Listener{logEvents(s.log.Logger), metrics.observe, jobs.observe, imports.observe}
	if s.opts.Events != nil {
		listeners = append(listeners, s.opts.Events)
	}
	if s.node, err = newNode(NodeOptions{
		Config: s.opts.Config, Log: s.log, Version: s.opts.Version, GitHash: s.opts.GitHash, Listeners: listeners,
		Port: port, StatusPort: portOf(statusListener), Stage: s.opening.enter, WorkerCommand: s.opts.WorkerCommand,
	}); err != nil {
		return err
	}
	if statusListener != nil {
		// The order matters: gathering our metrics updates some of TiDB's, which are in the default registry.
		if err := s.startStatus(statusListener, prometheus.Gatherers{metrics.registry, prometheus.DefaultGatherer}); err != nil {
			return errors.Join(err, s.node.Close())
		}
	}
	s.parts.add(s.node.Close)
	if err := s.node.open(ctx); err != nil {
		return err
	}
	metrics.registry.MustRegister(s.node.collectors()...)
	if s.opts.Config.Store == config.StorePebble {
		metrics.registry.MustRegister(imports)
	}
	jobs.follow(s.node.UnfinishedJobs)
	s.parts.add(jobs.close)
	if err := s.newServer(); err != nil {
		return err
	}
	return s.showStore()
}

// newServer makes TiDB's server over the node, without its listeners.
func (s *Server) newServer() error {
	if err := s.useAutoTLS(); err != nil {
		return err
	}
	srv, err := tidbserver.NewServer(tidb.GetGlobalConfig(), s.node.driver)
	if err != nil {
		return fmt.Errorf("security: %w", err) // it reads the certificates
	}
	s.tidb = srv
	warnOfCertificates(s.log.Logger, srv.GetTLSConfig(), s.opts.Config.Security, time.Now())
	if err := s.loadTokenKeys(&tidb.GetGlobalConfig().Security); err != nil {
		return err
	}
	if err := s.openAPI(); err != nil {
		return err
	}
	s.clients = &clientList{SessionManager: withAPI{srv, s.apiSessions}}
	s.node.serve(srv, s.clients)
	topsql.SetupTopSQL(srv)
	s.parts.add(func() error { topsql.Close(); return nil })
	return nil
}

// loadTokenKeys reads the keys of tidb_auth_token once per refresh interval. TiDB starts that where it opens
// its own status port, which this server does not use.
func (s *Server) loadTokenKeys(cfg *tidb.Security) error {
	if cfg.AuthTokenJWKS == "" {
		return nil
	}
	interval, err := time.ParseDuration(cfg.AuthTokenRefreshInterval)
	if err != nil || interval <= 0 {
		return fmt.Errorf("tidb.security.auth-token-refresh-interval: %q is not a duration such as \"1h\"", cfg.AuthTokenRefreshInterval)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	s.parts.add(func() error { cancel(); return nil })
	if err := privileges.GlobalJWKS.LoadJWKS4AuthToken(ctx, &readers, cfg.AuthTokenJWKS, interval); err != nil {
		s.log.Error("cannot load the keys of tidb_auth_token; they are tried again", zap.String("path", cfg.AuthTokenJWKS), zap.Error(err))
	}
	return nil
}

// run starts the listeners of TiDB's server and waits until they accept clients.
func (s *Server) run() error {
	go func() {
		defer func() {
			if r := recover(); r != nil {
				s.ended <- fmt.Errorf("server: panic: %v", r)
			}
		}()
		s.ended <- s.serve()
	}()
	s.parts.add(s.stop)
	if err := awaitListener(s.addr.String(), s.ended); err != nil {
		return fmt.Errorf("%s: %w", listenerSetting(err, tidb.GetGlobalConfig().Socket), err)
	}
	return nil
}

// listenerSetting returns the setting at fault if TiDB's listeners do not start: the socket if the error names
// its file, otherwise the port, although that was free a moment ago.
func listenerSetting(err error, socket string) string {
	if socket != "" && strings.Contains(err.Error(), socket) {
		return "socket"
	}
	return "port"
}

// relistenInterval is the time between attempts to open a listener again.
const relistenInterval = time.Second

// serve runs TiDB's server until it is closed. TiDB gives up its listeners at the
// first error, such as a lack of file descriptors, which passes.
func (s *Server) serve() error {
	for {
		err := s.tidb.Run(s.node.Domain())
		if err == nil || !s.ready.Load() {
			return err
		}
		s.log.Error("no clients can be accepted, the listener is opened again", zap.Error(err))
		for _, l := range []net.Listener{s.tidb.Listener(), s.tidb.Socket()} {
			if l != nil {
				_ = l.Close() // it has failed already
			}
		}
		time.Sleep(relistenInterval)
		if !s.ready.Load() {
			return nil
		}
	}
}

// startStatus serves the status port, without the pages that need the store.
func (s *Server) startStatus(listener net.Listener, gatherer prometheus.Gatherer) error {
	cfg := s.opts.Config
	secured, err := s.secureStatus(listener)
	if err != nil {
		return err
	}
	page, err := console.Handler()
	if err != nil {
		return err
	}
	s.status = startStatusServer(statusOptions{
		listener: secured, gatherer: gatherer, health: s.Health, log: s.log.Logger, console: page,
		localOnly: cfg.Store == config.StorePebble && !cfg.Status.EnableDebug,
	})
	s.parts.add(func() error { return withCutGrace(s.status.close) })
	return nil
}

// showStore adds the pages that need the store to the status port.
func (s *Server) showStore() error {
	if s.status == nil {
		return nil
	}
	cfg := s.opts.Config
	rpc := tidbserver.NewRPCServer(tidb.GetGlobalConfig(), s.node.Domain(), s.clients)
	if cfg.Store == config.StoreTiKV {
		leave, err := joinCluster(rpc, s.node.store.storage)
		if err != nil {
			return err
		}
		s.parts.add(leave)
	}
	s.status.open(storePages{
		status: s.Status, debug: debugRoutes(cfg, s.node.helperStorage(), s.node.Domain()), guard: s.statusGuard(), grpc: rpc,
		api: s.api,
	})
	s.parts.add(func() error { return withCutGrace(s.status.retire) })
	return nil
}

// withCutGrace gives scrapes that are running cutGrace to end.
func withCutGrace(end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	return end(ctx)
}

// secureStatus returns a listener with the cluster's TLS, if that is configured: the other
// servers connect to the status port with it, as TiDB's servers do.
func (s *Server) secureStatus(listener net.Listener) (net.Listener, error) {
	security := tidb.GetGlobalConfig().Security.ClusterSecurity()
	config, err := security.ToTLSConfig()
	if err != nil {
		return nil, fmt.Errorf("tidb.security: %w", err)
	}
	if config == nil {
		return listener, nil
	}
	s.statusScheme = "https"
	config.ClientAuth, s.statusAuthorities = tls.RequestClientCert, config.ClientCAs // for statusGuard
	requireCommonName(config, tidb.GetGlobalConfig().Security.ClusterVerifyCN)
	return tls.NewListener(listener, config), nil
}

// Addr returns the address of the MySQL listener, with the port that port 0 has become.
func (s *Server) Addr() net.Addr { return s.addr }

// StatusAddr returns the address of the HTTP status server, nil if it is off.
func (s *Server) StatusAddr() net.Addr {
	if s.status == nil {
		return nil
	}
	return s.status.opts.listener.Addr()
}

// StatusURL returns the URL of the HTTP status server, empty if it is off.
func (s *Server) StatusURL() string {
	if s.status == nil {
		return ""
	}
	return s.statusScheme + "://" + s.StatusAddr().String()
}

// Node returns the node, which runs below the listeners.
func (s *Server) Node() *Node { return s.node }

// Ended receives an error when the server must be shut down by itself: it no longer
// accepts clients, or its store has failed permanently.
func (s *Server) Ended() <-chan error { return s.ended }

// Status describes the running server.
func (s *Server) Status() Status {
	return Status{
		Connections:   s.tidb.ConnectionCount(),
		Version:       Version(),
		GitHash:       s.opts.GitHash,
		Store:         s.opts.Config.Store,
		UptimeSeconds: int64(time.Since(s.started).Seconds()),
	}
}

var (
	errNotReady = errors.New("not ready")
	errDraining = errors.New("draining: the server is stopping")
)

// Health returns nil while statements are accepted and the store can execute them.
func (s *Server) Health() error {
	if s.draining.Load() {
		return errDraining
	}
	if !s.ready.Load() {
		return s.opening.reason()
	}
	return s.node.healthy()
}

const (
	// cancelGrace is left to sessions to end after they were cut off.
	cancelGrace = time.Second
	// cutGrace is left to scrapes that run when the status server stops.
	cutGrace = 5 * time.Second
	// failedGrace is left to everything if the store has failed.
	failedGrace = 2 * time.Second
	// closeGrace is left to everything after the sessions have ended.
	closeGrace = 20 * time.Second
)

// errSlowShutdown is returned if a part of the server did not end in time.
var errSlowShutdown = errors.New("the server did not stop in time; what it has acknowledged is durable")

// Shutdown stops the server; see the package comment for the order. It takes the
// configured time for statements to end, and at most some seconds more.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.log.Info("server is stopping", zap.Int("connections", s.tidb.ConnectionCount()),
		zap.Duration("clientsAreLetInFor", time.Duration(tidb.GetGlobalConfig().GracefulWaitBeforeShutdown)*time.Second))
	s.ready.Store(false)
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("panic during shutdown", zap.Any("panic", r), zap.Stack("stack"))
				done <- fmt.Errorf("server: panic during shutdown: %v", r)
			}
		}()
		done <- s.parts.close()
	}()
	wait := time.Duration(tidb.GetGlobalConfig().GracefulWaitBeforeShutdown) * time.Second
	timeout := time.After(wait + time.Duration(s.opts.Config.ShutdownTimeout) + closeGrace)
	if errors.Is(s.node.healthy(), kv.ErrStoreFailed) {
		timeout = time.After(failedGrace) // open statements can only fail
	}
	var err error
	select {
	case err = <-done:
	case <-timeout:
		err = errSlowShutdown
	case <-ctx.Done():
		err = errors.Join(errSlowShutdown, context.Cause(ctx))
	}
	s.log.Info("server has stopped", zap.Error(err))
	return err
}

// stop ends the listeners and the sessions: jobs stop where they are and go on at
// the next start, statements and transactions may end within the configured time. Then
// it cancels requests for statistics, which go on when their session is killed.
func (s *Server) stop() error {
	s.tidb.Close()
	err := s.node.stopJobs()
	s.apiSessions.end()
	s.api.Close()
	s.clients.end(time.Duration(s.opts.Config.ShutdownTimeout), func(rest time.Duration) { s.tidb.DrainClients(rest, cancelGrace) })
	s.tidb.KillSysProcesses()
	s.node.store.endAnalyses()
	plugin.Shutdown(context.Background())
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
