package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"fastddl/config"
)

// get returns what a status server answers to root, who has no password.
func get(t *testing.T, addr net.Addr, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://root:@" + addr.String() + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// TestStatusServer: the port answers before the store is open, and after it is closed, and says why there is nothing to see.
func TestStatusServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	health := errors.New("not ready: replaying the log")
	s := startStatusServer(statusOptions{
		listener: l, gatherer: prometheus.NewRegistry(), log: zap.NewNop(),
		health: func() error { return health },
	})
	requireClosed := func(reason string) {
		t.Helper()
		for _, path := range []string{"/health", "/status", "/schema"} {
			code, body := get(t, l.Addr(), path)
			require.Equal(t, http.StatusServiceUnavailable, code, path)
			require.Contains(t, body, reason, path)
		}
	}
	requireClosed("replaying the log")
	code, _ := get(t, l.Addr(), "/metrics")
	require.Equal(t, http.StatusOK, code)

	health = errors.New("the disk is full")
	s.open(storePages{
		status: func() Status { return Status{Connections: 2, Version: "8.0", Store: "pebble"} },
		guard:  &statusGuard{open: true, log: zap.NewNop()},
		grpc:   grpc.NewServer(),
	})
	code, body := get(t, l.Addr(), "/health")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "the disk is full")
	code, _ = get(t, l.Addr(), "/status")
	require.Equal(t, http.StatusInternalServerError, code)

	health = nil
	code, body = get(t, l.Addr(), "/health")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)
	_, body = get(t, l.Addr(), "/status")
	var status Status
	require.NoError(t, json.Unmarshal([]byte(body), &status))
	require.Equal(t, 2, status.Connections)
	code, _ = get(t, l.Addr(), "/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusNotFound, code)

	health = errDraining
	require.NoError(t, s.retire(t.Context()))
	requireClosed("draining")

	require.NoError(t, s.close(t.Context()))
	_, err = http.Get("http://" + l.Addr().String() + "/health")
	require.Error(t, err)
}

// TestStoreStaysOpenUnderAPageThatReadsIt: a page that reads the store has it until it is written.
func TestStoreStaysOpenUnderAPageThatReadsIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := startStatusServer(statusOptions{
		listener: l, gatherer: prometheus.NewRegistry(), log: zap.NewNop(), health: func() error { return errDraining },
	})
	reads, end := make(chan struct{}), make(chan struct{})
	s.open(storePages{grpc: grpc.NewServer(), guard: &statusGuard{open: true, log: zap.NewNop()}, debug: func(r *mux.Router) {
		r.HandleFunc("/read", func(http.ResponseWriter, *http.Request) {
			close(reads)
			<-end
		})
	}})
	visited := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + l.Addr().String() + "/read")
		if err == nil {
			err = resp.Body.Close()
		}
		visited <- err
	}()
	<-reads
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.retire(impatient), context.Canceled)
	code, _ := get(t, l.Addr(), "/health")
	require.Equal(t, http.StatusServiceUnavailable, code, "it answers meanwhile")
	close(end)
	require.NoError(t, s.retire(t.Context()))
	require.NoError(t, <-visited)
	require.NoError(t, s.close(t.Context()))
}

// TestStatusPortOfAServer: our figures and TiDB's are in one place.
func TestStatusPortOfAServer(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	_, body := get(t, s.StatusAddr(), "/metrics")
	require.Contains(t, body, "fastddl_ddl_running_jobs 0")
	require.Contains(t, body, "tidb_server_connections")
	require.Contains(t, body, "process_resident_memory_bytes")
	for _, path := range []string{"/health", "/status", "/info", "/info/all", "/schema", "/schema/mysql/user", "/settings", "/config",
		"/ddl/history", "/mvcc/key/mysql/stats_meta/1", "/debug/pprof/goroutine?debug=1", "/stats/dump/mysql/user"} {
		code, body := get(t, s.StatusAddr(), path)
		require.Equal(t, http.StatusOK, code, "%s: %s", path, body)
	}
	// Memory tables of a cluster are read over gRPC, at the same address.
	var n int
	require.NoError(t, connect(t, s).QueryRow("SELECT COUNT(*) FROM information_schema.cluster_processlist").Scan(&n))
	require.Equal(t, 1, n)
}

// A job of an earlier process counts as well.
func TestRunningJobsAfterARestart(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.ShutdownTimeout = config.Duration(time.Second)
	s, altered, _ := startWithBuild(t, cfg)
	db := connect(t, s)
	running := func(s *Server) string {
		_, body := get(t, s.StatusAddr(), "/metrics")
		_, count, _ := strings.Cut(body, "\nfastddl_ddl_running_jobs ")
		return count[:1]
	}
	require.Equal(t, "1", running(s))
	var id int64
	require.NoError(t, db.QueryRow("SELECT MAX(job_id) FROM information_schema.ddl_jobs").Scan(&id))
	exec(t, db, fmt.Sprintf("ADMIN PAUSE DDL JOBS %d", id))
	shutdown(t, s)
	require.Error(t, <-altered)

	s = start(t, cfg)
	require.Equal(t, "1", running(s))
	exec(t, connect(t, s), fmt.Sprintf("ADMIN RESUME DDL JOBS %d", id))
	require.Eventually(t, func() bool { return running(s) == "0" }, hangTimeout, 10*time.Millisecond)
}

func TestRemoteServersAreRefused(t *testing.T) {
	at := func(local, remote string) fakeConn {
		return fakeConn{local: &net.TCPAddr{IP: net.ParseIP(local)}, remote: &net.TCPAddr{IP: net.ParseIP(remote)}}
	}
	require.True(t, isLocal(at("127.0.0.1", "127.0.0.1")))
	require.True(t, isLocal(at("10.0.0.1", "10.0.0.1")))
	require.False(t, isLocal(at("10.0.0.1", "10.0.0.2")))
	require.False(t, isLocal(fakeConn{local: &net.TCPAddr{}, remote: &net.UnixAddr{}}))
}

type fakeConn struct {
	net.Conn
	local, remote net.Addr
}

func (c fakeConn) LocalAddr() net.Addr  { return c.local }
func (c fakeConn) RemoteAddr() net.Addr { return c.remote }
