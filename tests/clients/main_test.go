package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fastddl/internal/servertest"
)

// binary is the program under test.
var binary string

// installed is the folder that packages of other languages are installed into. They stay there for the next run.
var installed string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fastddl-clients-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if installed, err = filepath.Abs(filepath.Join("..", "..", "bin", "clients")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv("FASTDDL_BIN") == "" {
		// The server is built from its own module, with its own versions.
		path := filepath.Join(dir, "fastddl")
		cmd := exec.Command("go", "build", "-o", path, "./cmd/fastddl")
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the server: %v\n%s", err, out)
			return 1
		}
		if err := os.Setenv("FASTDDL_BIN", path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return servertest.Main(m, &binary)
}

// startServer starts a server of the test's own with an empty database test.
func startServer(t *testing.T) *servertest.Node {
	t.Helper()
	return servertest.Start(t, binary, t.TempDir())
}
