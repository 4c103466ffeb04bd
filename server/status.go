package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/soheilhy/cmux"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"fastddl/api"
	"fastddl/console"
)

// Status is the answer of /status, with TiDB's names.
type Status struct {
	Connections int    `json:"connections"`
	Version     string `json:"version"`
	GitHash     string `json:"git_hash"`
	// Store names the storage driver.
	Store string `json:"store"`
	// UptimeSeconds is the time since the server became ready.
	UptimeSeconds int64 `json:"uptime_seconds"`
}

// statusServer serves metrics, health and TiDB's HTTP API, and on the same port
// the gRPC service through which the servers of a cluster, this one included, read
// each other's memory tables. It listens from the first moment of a start to the last
// of a stop: what needs the store is there between [statusServer.open] and
// [statusServer.retire].
type statusServer struct {
	opts    statusOptions
	http    *http.Server
	mux     cmux.CMux
	rest    *ownEnd
	grpc    *grpc.Server // nil before open
	running sync.WaitGroup

	mu     sync.Mutex
	pages  http.Handler
	opened bool
	visits sync.WaitGroup // of pages that need the store; added to under mu while these are open
}

// statusOptions say what a status server shows at any time.
type statusOptions struct {
	listener net.Listener
	gatherer prometheus.Gatherer
	// health is nil while statements are accepted and can be executed, else it
	// says why not.
	health func() error
	// localOnly refuses gRPC from other machines.
	localOnly bool
	// console has the page for people, which is there at any time; nil has none.
	console http.Handler
	log     *zap.Logger
}

// storePages is what a status server shows of an open store.
type storePages struct {
	status func() Status
	// debug adds profiles and TiDB's HTTP API to the routes; nil adds nothing.
	debug func(*mux.Router)
	// guard stands before all of them.
	guard *statusGuard
	// api answers /api/v1, and asks for log-ins by itself.
	api  http.Handler
	grpc *grpc.Server
}

// startStatusServer answers /health and /metrics.
func startStatusServer(opts statusOptions) *statusServer {
	s := &statusServer{opts: opts, mux: cmux.New(opts.listener)}
	s.pages = s.closedPages(opts.gatherer)
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: zap.NewStdLog(s.opts.log), ConnContext: withConn}

	// Without a limit a connection that says nothing would be kept for ever.
	s.mux.SetReadTimeout(10 * time.Second)
	httpListener := s.mux.Match(cmux.HTTP1Fast(http.MethodPatch))
	rest := s.mux.Match(cmux.Any())
	if opts.localOnly {
		rest = localListener{rest}
	}
	s.rest = newOwnEnd(rest) // requests wait until open
	s.serve("HTTP", func() error { return s.http.Serve(httpListener) })
	s.serve("gRPC connections", s.rest.pump)
	s.serve("status", s.mux.Serve)
	return s
}

// ServeHTTP implements http.Handler.
func (s *statusServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	pages := s.pages
	if s.opened {
		s.visits.Add(1)
		defer s.visits.Done()
	}
	s.mu.Unlock()
	pages.ServeHTTP(w, r)
}

// closedPages are those of a store that is not open: why not, and the metrics, if there is a gatherer.
func (s *statusServer) closedPages(gatherer prometheus.Gatherer) http.Handler {
	router := mux.NewRouter()
	router.HandleFunc("/health", s.serveHealth)
	if gatherer != nil {
		router.Handle("/metrics", s.metricsPage(gatherer))
	}
	router.PathPrefix(api.Prefix).Handler(api.Unopened(s.opts.health))
	if s.opts.console != nil {
		router.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool { return console.Serves(r) }).Handler(s.opts.console)
	}
	closed := func(w http.ResponseWriter, _ *http.Request) {
		err := s.opts.health()
		if err == nil {
			err = errNotReady
		}
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
	router.PathPrefix("/").HandlerFunc(closed)
	return router
}

func (s *statusServer) metricsPage(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(s.opts.log)})
}

// open shows what needs the store.
func (s *statusServer) open(p storePages) {
	router := mux.NewRouter()
	router.Handle("/metrics", s.metricsPage(s.opts.gatherer))
	router.HandleFunc("/health", s.serveHealth)
	router.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.opts.health(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError) // as TiDB does
			return
		}
		s.writeJSON(w, p.status())
	})
	if p.debug != nil {
		p.debug(router)
	}
	p.guard.next, p.guard.api, p.guard.console = router, p.api, s.opts.console
	s.grpc = p.grpc
	s.serve("gRPC", func() error { return p.grpc.Serve(s.rest) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages, s.opened = p.guard, true
}

// retire closes the pages that need the store, and waits until ctx ends for requests that read them. /health goes on.
func (s *statusServer) retire(ctx context.Context) error {
	s.mu.Lock()
	s.pages, s.opened = s.closedPages(nil), false
	s.mu.Unlock()
	if s.grpc != nil {
		s.grpc.Stop()
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		s.visits.Wait()
	}()
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop status server: %w", context.Cause(ctx))
	}
}

// serve runs one of the loops of the server until it is closed.
func (s *statusServer) serve(name string, run func() error) {
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		err := run()
		if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, cmux.ErrServerClosed) {
			s.opts.log.Error("status server stopped", zap.String("part", name), zap.Error(err))
		}
	}()
}

// serveHealth answers 200 while statements are accepted, else 503 and why.
func (s *statusServer) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if err := s.opts.health(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *statusServer) writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.opts.log.Debug("status not sent", zap.Error(err))
	}
}

// close stops the server; scrapes that run may finish until ctx ends.
func (s *statusServer) close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop status server: %w", err), s.http.Close())
	}
	if s.grpc != nil {
		s.grpc.Stop()
	}
	s.mux.Close()
	_ = s.rest.Close() // never fails
	if closeErr := s.opts.listener.Close(); !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	s.running.Wait()
	return err
}

// ownEnd is a listener that can be closed without the port that it shares with others, which cmux would close.
type ownEnd struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newOwnEnd(l net.Listener) *ownEnd {
	return &ownEnd{Listener: l, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// pump accepts connections until the port is closed; those that come after Close end at once.
func (e *ownEnd) pump() error {
	for {
		conn, err := e.Listener.Accept()
		if err != nil {
			return errors.Join(err, e.Close())
		}
		select {
		case e.conns <- conn:
		case <-e.closed:
			_ = conn.Close() // nothing was said on it
		}
	}
}

// Accept implements net.Listener.
func (e *ownEnd) Accept() (net.Conn, error) {
	select {
	case conn := <-e.conns:
		return conn, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (e *ownEnd) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

// localListener refuses connections from other machines.
type localListener struct{ net.Listener }

// Accept implements net.Listener.
func (l localListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || isLocal(conn) {
			return conn, err
		}
		_ = conn.Close() // nothing was said on it
	}
}

// isLocal reports whether the peer of conn is on this machine: then it has the
// address that it has called.
func isLocal(conn net.Conn) bool {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	return remote.IP.IsLoopback() || ok && remote.IP.Equal(local.IP)
}
