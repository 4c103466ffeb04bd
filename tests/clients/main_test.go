package clients

import (
	"fmt"
	"os"
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
	var err error
	if installed, err = filepath.Abs(filepath.Join("..", "..", "bin", "clients")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return servertest.Main(m, &binary)
}

// startServer starts a server of the test's own with an empty database test.
func startServer(t *testing.T) *servertest.Node {
	t.Helper()
	return servertest.Start(t, binary, t.TempDir())
}
