package blackbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if binary = os.Getenv("FASTDDL_BIN"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "fastddl-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "fastddl")
	build := exec.Command("go", "build", "-tags", "gms_pure_go", "-o", binary, "fastddl/cmd/fastddl")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
