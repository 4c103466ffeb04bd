package server

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestStatusServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := newMetrics(func() int { return 2 })
	s := newStatusServer(l, m.registry, func() Status { return Status{Connections: 2, Version: "8.0", Store: "pebble"} }, zap.NewNop())
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + l.Addr().String() + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}

	code, _ := get("/health")
	require.Equal(t, http.StatusServiceUnavailable, code, "before it is ready")
	s.ready.Store(true)
	code, body := get("/health")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)

	_, body = get("/status")
	var status Status
	require.NoError(t, json.Unmarshal([]byte(body), &status))
	require.Equal(t, 2, status.Connections)

	_, body = get("/metrics")
	require.Contains(t, body, "fastddl_server_connections 2")
	code, _ = get("/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusOK, code)
	code, _ = get("/nothing")
	require.Equal(t, http.StatusNotFound, code)

	require.NoError(t, s.close(context.Background()))
	_, err = http.Get("http://" + l.Addr().String() + "/health")
	require.Error(t, err)
}
