package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	gmsserver "github.com/dolthub/go-mysql-server/server"
	gmssql "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/event"
	"fastddl/sql/sqlerr"
	"fastddl/sql/sysvar"
)

// Options say what to start.
type Options struct {
	// Config must have been validated.
	Config config.Config
	// Logger receives the log; nil drops it.
	Logger *zap.Logger
	// Version and GitHash describe the build; they are shown by /status.
	Version string
	GitHash string
	// Events, if set, receives every event besides log and metrics.
	Events event.Listener
}

// EnsureDefaults fills in what is not set.
func (o *Options) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
}

// Server is a running fastddl node.
type Server struct {
	opts     Options
	log      *zap.Logger
	started  time.Time
	listener net.Listener
	node     *Node
	conns    *connections
	metrics  *metrics
	mysql    *gmsserver.Server
	status   *statusServer // nil if switched off
	accepted chan struct{} // closed when the accept loop has ended
	// stopWatch ends the watch over clients and waits for it.
	stopWatch func()
}

// Start starts a node and returns when it accepts statements. An error names
// what is to blame in one line, and leaves nothing running.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	opts.EnsureDefaults()
	cfg := opts.Config
	s := &Server{opts: opts, log: opts.Logger, conns: newConnections(), accepted: make(chan struct{})}
	var undo closers
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.close())
		}
	}()

	if s.listener, err = listen("port", cfg.Host, cfg.Port); err != nil {
		return nil, err
	}
	undo.add(s.listener.Close)
	var statusListener net.Listener
	if cfg.Status.ReportStatus {
		if statusListener, err = listen("status-port", cfg.Status.StatusHost, cfg.Status.StatusPort); err != nil {
			return nil, err
		}
		undo.add(statusListener.Close)
	}
	tls, err := tlsConfig(cfg.Security)
	if err != nil {
		return nil, err
	}

	s.metrics = newMetrics(s.conns.len)
	listeners := []event.Listener{logEvents(s.log), s.metrics.ddl.observe}
	if opts.Events != nil {
		listeners = append(listeners, opts.Events)
	}
	if s.node, err = OpenNode(ctx, NodeOptions{Config: cfg, Logger: s.log, Version: opts.Version, Listeners: listeners}); err != nil {
		return nil, err
	}
	undo.add(s.node.Close)
	s.metrics.registry.MustRegister(newStoreCollector(s.node.Store), newGovernorCollector(s.node.Backfiller.Governor))

	s.mysql, err = gmsserver.NewServer(gmsserver.Config{
		Protocol:               "tcp",
		Address:                s.listener.Addr().String(),
		Listener:               s.listener,
		Version:                sysvar.ServerVersion(s.opts.Version),
		TLSConfig:              tls,
		RequireSecureTransport: cfg.Security.RequireSecureTransport,
		// Applied in order, each around the ones before it.
		Options: append(s.node.Engine.ServerOptions(), sqlerr.ServerOption(), s.observe),
	}, s.node.Engine.GMS(), gmssql.NewContext, s.node.Engine.SessionBuilder, nil)
	if err != nil {
		return nil, fmt.Errorf("start the MySQL listener: %w", err)
	}
	s.started = time.Now()
	if statusListener != nil {
		s.status = newStatusServer(statusListener, s.metrics.registry, s.Status, s.log)
		s.status.ready.Store(true)
	}
	s.watchClients()
	go func() {
		defer close(s.accepted)
		s.mysql.Listener.Accept()
	}()
	s.log.Info("server is ready", zap.Stringer("address", s.Addr()), zap.String("store", s.node.Store.Name()),
		zap.String("path", cfg.Path), zap.String("version", opts.Version))
	return s, nil
}

// watchClients starts ending the statements of clients that are gone.
func (s *Server) watchClients() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		processes := s.node.Engine.GMS().ProcessList
		s.conns.watchClients(ctx, lostClientInterval, func(c *mysql.Conn) {
			s.log.Info("client is gone, its statement is ended", zap.Uint32("conn", c.ConnectionID))
			processes.Kill(c.ConnectionID)
			c.Close()
		})
	}()
	s.stopWatch = func() {
		cancel()
		<-done
	}
}

// listen binds a TCP port; 0 is a free one.
func listen(setting, host string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return l, nil
}

// observe wraps the protocol handler with what the server wants to know of it.
func (s *Server) observe(e *sqle.Engine, sm *gmsserver.SessionManager, h mysql.Handler) (*sqle.Engine, *gmsserver.SessionManager, mysql.Handler) {
	return e, sm, &handler{
		Handler: h,
		conns:   s.conns,
		metrics: s.metrics,
		meter:   s.node.Foreground,
		log:     s.log,
		slow:    time.Duration(s.opts.Config.Log.SlowThreshold) * time.Millisecond,
	}
}

// Addr is the address of the MySQL listener, with the real port.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// StatusAddr is the address of the HTTP status server, nil if it is off.
func (s *Server) StatusAddr() net.Addr {
	if s.status == nil {
		return nil
	}
	return s.status.listener.Addr()
}

// Node is what runs below the listeners.
func (s *Server) Node() *Node { return s.node }

// Status describes the running server.
func (s *Server) Status() Status {
	return Status{
		Connections:   s.conns.len(),
		Version:       sysvar.ServerVersion(s.opts.Version),
		GitHash:       s.opts.GitHash,
		Store:         s.node.Store.Name(),
		UptimeSeconds: int64(time.Since(s.started).Seconds()),
	}
}

// Time left to sessions to end after they were killed, and after that to
// connections to end after they were cut.
const (
	killGrace = 5 * time.Second
	cutGrace  = 5 * time.Second
)

// Shutdown stops the server; see the package comment for the order. Statements
// may run on for the configured time, or until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.log.Info("server is stopping", zap.Int("connections", s.conns.len()))
	if s.status != nil {
		s.status.ready.Store(false)
	}
	s.mysql.Listener.Close()
	<-s.accepted

	s.conns.drain()
	drainCtx, cancel := context.WithTimeout(ctx, s.opts.Config.ShutdownTimeout)
	defer cancel()
	if err := s.conns.wait(drainCtx, exceptDDL); err != nil {
		s.log.Warn("statements still run and will be killed", zap.Int("connections", s.conns.len()))
	}
	ddlErr := s.node.DDL.Close()
	s.endConnections()
	s.stopWatch()
	err := errors.Join(ddlErr, s.node.Close())
	if s.status != nil {
		statusCtx, cancel := context.WithTimeout(context.Background(), cutGrace)
		defer cancel()
		err = errors.Join(err, s.status.close(statusCtx))
	}
	s.log.Info("server has stopped", zap.Error(err))
	return err
}

// endConnections kills what still runs and waits until the last connection is
// gone: the engine and the store must not be closed under a statement.
func (s *Server) endConnections() {
	processes := s.node.Engine.GMS().ProcessList
	for _, step := range []struct {
		end   func(*mysql.Conn)
		grace time.Duration
	}{
		{func(c *mysql.Conn) { processes.Kill(c.ConnectionID) }, killGrace},
		{func(c *mysql.Conn) { c.Close() }, cutGrace},
	} {
		s.conns.each(step.end)
		ctx, cancel := context.WithTimeout(context.Background(), step.grace)
		err := s.conns.wait(ctx, anyConnection)
		cancel()
		if err == nil {
			return
		}
	}
	s.log.Error("connections did not end", zap.Int("connections", s.conns.len()))
}
