package blackbox

import (
	"fmt"
	"os"
	"testing"

	"fastddl/internal/servertest"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	path, cleanup, err := servertest.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cleanup()
	binary = path
	return m.Run()
}
