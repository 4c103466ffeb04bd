package blackbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// openingServer is a server that may not have opened yet.
type openingServer struct {
	cmd    *exec.Cmd
	stderr *lockedBuffer
	// addr and status are host:port of the MySQL and the HTTP listener to come.
	addr, status string
	ended        chan struct{}
}

var startingLine = regexp.MustCompile(`\["server is starting"\] \[address=([^\]]+)\] \[status=([^\]]+)\]`)

// startOpening starts a server on free ports and waits until it has taken them, which is the first thing that it does.
func startOpening(t *testing.T, args ...string) *openingServer {
	t.Helper()
	s := &openingServer{stderr: &lockedBuffer{}, ended: make(chan struct{})}
	s.cmd = exec.Command(binary, append([]string{"server", "-P", "0", "--status-port", "0"}, args...)...)
	s.cmd.Stderr = s.stderr
	require.NoError(t, s.cmd.Start())
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // tests look at the state
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.ended
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.stderr.String())
		}
	})
	require.Eventually(t, func() bool {
		found := startingLine.FindStringSubmatch(s.stderr.String())
		if found == nil {
			return false
		}
		s.addr, s.status = found[1], found[2]
		return true
	}, hangTimeout, time.Millisecond)
	return s
}

// terminate asks the server to end and waits for that.
func (s *openingServer) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.ended:
	case <-time.After(hangTimeout):
		require.FailNow(t, "the server did not end")
	}
}

// health is what the status port answers at a path: the code, and the text.
func (s *openingServer) health(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + s.status + path)
	require.NoError(t, err, "the status port answers from the first moment to the last")
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// firstPacket connects again and again while connections are refused, and returns what the first that is accepted reads.
func firstPacket(addr string) error {
	for {
		conn, err := net.Dial("tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		defer conn.Close()
		var first [5]byte
		if _, err := io.ReadFull(conn, first[:]); err != nil {
			return fmt.Errorf("a connection that was accepted is not greeted: %w", err)
		}
		if first[4] != 10 {
			return fmt.Errorf("the first packet is no greeting: %x", first)
		}
		return nil
	}
}

// TestClientsDuringTheStartAreRefusedOrGreeted: a connection that is accepted is greeted. One that is accepted and then
// broken looks to a probe like a server that is up, and to a client like one that fails.
func TestClientsDuringTheStartAreRefusedOrGreeted(t *testing.T) {
	dir := t.TempDir()
	require.Zero(t, startNode(t, dir).terminate())
	s := startOpening(t, "--path", dir)
	greeted := make(chan error, 1)
	go func() { greeted <- firstPacket(s.addr) }()
	deadline := time.Now().Add(hangTimeout)
	for code, body := s.health(t, "/health"); code != http.StatusOK; code, body = s.health(t, "/health") {
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, body, "not ready: ")
		require.True(t, time.Now().Before(deadline), body)
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-greeted:
		require.NoError(t, err)
	case <-time.After(hangTimeout):
		require.FailNow(t, "nothing listens")
	}
	s.terminate(t)
	require.Zero(t, s.cmd.ProcessState.ExitCode())
	for _, stage := range []string{"opening the store", "replaying the log", "bootstrapping the SQL layer", "loading the statistics", "loading the index builds", "accepting clients"} {
		require.Contains(t, s.stderr.String(), "opening: "+stage)
	}
}

// TestSlowStartSaysWhy: here the cluster does not answer.
func TestSlowStartSaysWhy(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it does not accept
	require.NoError(t, err)
	defer silent.Close()
	s := startOpening(t, "--store", "tikv", "--path", silent.Addr().String(), "--temp-dir", t.TempDir())
	require.Eventually(t, func() bool {
		code, body := s.health(t, "/health")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "not ready: connecting to the cluster of 127.0.0.1:")
	}, hangTimeout, pollInterval)
	code, body := s.health(t, "/status")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "connecting to the cluster")
	_, err = net.Dial("tcp", s.addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "who comes too early learns so at once")
	require.Eventually(t, func() bool { return strings.Contains(s.stderr.String(), "still opening: connecting to the cluster") }, hangTimeout, pollInterval)
	s.terminate(t)
}
