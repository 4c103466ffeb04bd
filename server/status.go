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
// each other's memory tables.
type statusServer struct {
	http     *http.Server
	grpc     *grpc.Server
	listener net.Listener
	mux      cmux.CMux
	log      *zap.Logger
	running  sync.WaitGroup
}

// statusOptions say what a status server shows.
type statusOptions struct {
	listener net.Listener
	gatherer prometheus.Gatherer
	// health is nil while statements are accepted and can be executed, else it
	// says why not.
	health func() error
	status func() Status
	// debug adds profiles and TiDB's HTTP API to the routes; nil adds nothing.
	debug func(*mux.Router)
	// guard stands before the routes.
	guard *statusGuard
	grpc  *grpc.Server
	// localOnly refuses gRPC from other machines.
	localOnly bool
	log       *zap.Logger
}

func startStatusServer(opts statusOptions) *statusServer {
	s := &statusServer{grpc: opts.grpc, listener: opts.listener, mux: cmux.New(opts.listener), log: opts.log}
	router := mux.NewRouter()
	errorLog := zap.NewStdLog(opts.log)
	router.Handle("/metrics", promhttp.HandlerFor(opts.gatherer, promhttp.HandlerOpts{ErrorLog: errorLog}))
	router.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { serveHealth(w, opts.health()) })
	router.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		if err := opts.health(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError) // as TiDB does
			return
		}
		s.writeJSON(w, opts.status())
	})
	if opts.debug != nil {
		opts.debug(router)
	}
	opts.guard.next = router
	s.http = &http.Server{Handler: opts.guard, ReadHeaderTimeout: 10 * time.Second, ErrorLog: errorLog, ConnContext: withConn}

	// Without a limit a connection that says nothing would be kept for ever.
	s.mux.SetReadTimeout(10 * time.Second)
	httpListener := s.mux.Match(cmux.HTTP1Fast())
	rest := s.mux.Match(cmux.Any())
	if opts.localOnly {
		rest = localListener{rest}
	}
	s.serve("HTTP", func() error { return s.http.Serve(httpListener) })
	s.serve("gRPC", func() error { return s.grpc.Serve(rest) })
	s.serve("status", s.mux.Serve)
	return s
}

// serve runs one of the loops of the server until it is closed.
func (s *statusServer) serve(name string, run func() error) {
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		err := run()
		if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, cmux.ErrServerClosed) {
			s.log.Error("status server stopped", zap.String("part", name), zap.Error(err))
		}
	}()
}

// serveHealth answers 200 while statements are accepted, else 503 and why.
func serveHealth(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *statusServer) writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("status not sent", zap.Error(err))
	}
}

// close stops the server; scrapes that run may finish until ctx ends.
func (s *statusServer) close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop status server: %w", err), s.http.Close())
	}
	s.grpc.Stop()
	s.mux.Close()
	if closeErr := s.listener.Close(); !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	s.running.Wait()
	return err
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
