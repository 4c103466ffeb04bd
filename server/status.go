package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
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

// statusServer serves metrics, health and profiles over HTTP.
type statusServer struct {
	http     *http.Server
	listener net.Listener
	ready    atomic.Bool
	done     chan struct{}
}

func newStatusServer(l net.Listener, registry *prometheus.Registry, status func() Status, log *zap.Logger) *statusServer {
	s := &statusServer{listener: l, done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(log)}))
	mux.HandleFunc("GET /health", s.serveHealth)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, status(), log) })
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: zap.NewStdLog(log)}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("status server stopped", zap.Error(err))
		}
	}()
	return s
}

// serveHealth answers 200 while statements are accepted, else 503.
func (s *statusServer) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func writeJSON(w http.ResponseWriter, v any, log *zap.Logger) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		log.Debug("status not sent", zap.Error(err))
	}
}

// close stops the server; scrapes that run may finish until ctx ends.
func (s *statusServer) close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop status server: %w", err), s.http.Close())
	}
	<-s.done
	return err
}
