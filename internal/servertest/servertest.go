package servertest

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

const (
	// StartTimeout is how long a server may take until it accepts statements, and how
	// long other short waits of tests may take: it is for a machine that is slow and
	// busy.
	StartTimeout = 2 * time.Minute
	stopTimeout  = 2 * time.Minute
)

// Main runs the tests of a package with binary set to the path of the program
// under test, and returns their exit code.
func Main(m *testing.M, binary *string) int {
	path, cleanup, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cleanup()
	*binary = path
	return Run(m)
}

// Run runs the tests of a package that knows its binary, and returns their exit code.
func Run(m *testing.M) int {
	defer func() {
		if err := bootstrapped.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

// bootstrapped is the folder of a server that has been started and stopped.
var bootstrapped Template

// build returns the path of the binary, which cleanup removes: the one that
// FASTDDL_BIN names, or one built for the occasion.
func build() (binary string, cleanup func(), err error) {
	if binary = os.Getenv("FASTDDL_BIN"); binary != "" {
		_, err := os.Stat(binary) // go test takes no old result when the file has changed
		return binary, func() {}, err
	}
	dir, err := os.MkdirTemp("", "fastddl-bin-")
	if err != nil {
		return "", nil, err
	}
	cleanup = func() { _ = os.RemoveAll(dir) }
	binary = filepath.Join(dir, "fastddl")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/fastddl")
	_, file, _, _ := runtime.Caller(0)
	cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..") // its own module with its own versions, also for tests of other modules
	if out, err := cmd.CombinedOutput(); err != nil {
		cleanup()
		return "", nil, fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return binary, cleanup, nil
}

// Buffer collects the output of a process while that writes it. The zero value
// is ready for use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what has been written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Node is one run of the server process.
type Node struct {
	Cmd *exec.Cmd
	// Stderr is the log.
	Stderr *Buffer
	// Addr and Status are host:port of the MySQL and the HTTP listener.
	Addr, Status string

	t       testing.TB
	exited  chan struct{}
	exitErr error
}

// Start starts a server on free ports over the store in dir and waits until it
// accepts statements. It is killed at the end of the test, and its log printed
// if the test has failed. An empty folder gets a copy of a bootstrapped store.
func Start(t testing.TB, binary, dir string, args ...string) *Node {
	t.Helper()
	Bootstrap(t, binary, dir)
	return StartAsIs(t, binary, dir, args...)
}

// Bootstrap copies into dir, if it is an empty folder, a store that binary has bootstrapped.
func Bootstrap(t testing.TB, binary, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return
	}
	require.NoError(t, bootstrapped.CopyTo(dir, func(template string) error {
		if code := StartAsIs(t, binary, template).Terminate(); code != 0 {
			return fmt.Errorf("the server that bootstraps a store ended with code %d", code)
		}
		return nil
	}))
}

// StartAsIs is Start without a copied store: the server itself bootstraps an empty folder.
func StartAsIs(t testing.TB, binary, dir string, args ...string) *Node {
	t.Helper()
	for range 3 {
		n, err := start(t, binary, dir, args)
		if err == nil {
			return n
		}
		// Between the server's choice of a port and its use another process may get it.
		if !strings.Contains(n.Stderr.String(), "address already in use") {
			require.FailNow(t, err.Error(), n.Stderr.String())
		}
	}
	require.FailNow(t, "no port is free")
	return nil
}

func start(t testing.TB, binary, dir string, args []string) (*Node, error) {
	t.Helper()
	args = append([]string{"server", "--path", dir, "-P", "0", "--status-port", "0"}, args...)
	n := &Node{t: t, Cmd: exec.Command(binary, args...), Stderr: &Buffer{}, exited: make(chan struct{})}
	n.Cmd.Stderr = n.Stderr
	stdout, err := n.Cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, n.Cmd.Start())
	t.Cleanup(func() {
		n.Kill()
		if t.Failed() {
			t.Logf("log of the server:\n%s", n.Stderr.String())
		}
	})

	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				n.Addr = addr
			}
			if url, ok := strings.CutPrefix(lines.Text(), "status on "); ok {
				_, n.Status, _ = strings.Cut(url, "://")
				close(ready)
			}
		}
		n.exitErr = n.Cmd.Wait()
		close(n.exited)
	}()
	select {
	case <-ready:
		return n, nil
	case <-n.exited:
		return n, fmt.Errorf("the server ended: %v", n.exitErr)
	case <-time.After(StartTimeout):
		return n, errors.New("the server did not become ready")
	}
}

// Kill ends the process as a crash would.
func (n *Node) Kill() {
	_ = n.Cmd.Process.Kill() // it may have ended
	<-n.exited
}

// Exited reports whether the process has ended.
func (n *Node) Exited() bool {
	select {
	case <-n.exited:
		return true
	default:
		return false
	}
}

// Terminate asks the process to end and returns its exit code.
func (n *Node) Terminate() int {
	n.t.Helper()
	require.NoError(n.t, n.Cmd.Process.Signal(syscall.SIGTERM))
	return n.Wait()
}

// Wait waits until the process has ended and returns its exit code.
func (n *Node) Wait() int {
	n.t.Helper()
	select {
	case <-n.exited:
	case <-time.After(stopTimeout):
		require.FailNow(n.t, "the server did not end", n.Stderr.String())
	}
	return n.Cmd.ProcessState.ExitCode()
}

// Open connects to a database of the node. The connections are closed at the
// end of the test.
func (n *Node) Open(database string) *sql.DB {
	n.t.Helper()
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", n.Addr, "root", database
	cfg.InterpolateParams = true
	cfg.Logger = &mysql.NopLogger{} // broken connections are what some tests are about
	connector, err := mysql.NewConnector(cfg)
	require.NoError(n.t, err)
	db := sql.OpenDB(connector)
	n.t.Cleanup(func() { _ = db.Close() })
	return db
}
