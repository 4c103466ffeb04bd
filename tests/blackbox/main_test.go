package blackbox

import (
	"os"
	"testing"

	"fastddl/internal/servertest"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(servertest.Main(m, &binary)) }
