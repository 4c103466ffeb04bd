package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(servertest.Main(m, &binary)) }

// deployed is the path of a file below deploy/.
func deployed(parts ...string) string {
	return filepath.Join(append([]string{"..", "..", "deploy"}, parts...)...)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// installed returns the path of a program of the machine; without it the test is skipped.
func installed(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed; .ci/run installs it where it can", program)
	}
	return path
}

// runs has a program succeed.
func runs(t *testing.T, program string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", program, args, out)
}
