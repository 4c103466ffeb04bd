package blackbox

import (
	"fmt"
	"os"
	"testing"

	"fastddl/internal/servertest"
)

// binary is the program under test, scratch a folder of the whole run.
var binary, scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "fastddl-blackbox-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return servertest.Main(m, &binary)
}
