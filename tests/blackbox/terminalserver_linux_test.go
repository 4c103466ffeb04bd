package blackbox

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestServerOnATerminal: a person sees what to do next, and the log is in a file of the new store. Scripts find their lines there too.
func TestServerOnATerminal(t *testing.T) {
	randtest.SkipShort(t)
	dir := filepath.Join(t.TempDir(), "data")
	p := startOnTerminal(t, nil, "server", "--path", dir, "-P", "0", "--status-port", "0")
	p.await("status on ")
	shown := p.lines()
	require.Less(t, len(shown), 15, "a screen has more lines")
	text := strings.Join(shown, "\n")
	addr := strings.TrimSpace(after(text, "listening on "))
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err, text)
	for _, want := range []string{
		"store    embedded store in " + dir, "connect  mysql -h " + host + " -P " + port + " -u root\n",
		"console  http://" + host, "/console/\n", "log      " + filepath.Join(dir, "fastddl.log") + "\n", "stop     Ctrl-C\n",
	} {
		require.Contains(t, text, want)
	}
	p.press(ctrlC)
	require.Equal(t, 0, p.exitCode())
	require.Contains(t, strings.Join(p.lines(), "\n"), "stopping: statements have up to 10s to end")
	log, err := os.ReadFile(filepath.Join(dir, "fastddl.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "server is starting", "also of before the store was made")
	require.Contains(t, string(log), "server is ready")

	// Where settings say what to log, the log is where it was.
	p = startOnTerminal(t, nil, "server", "--path", dir, "-P", "0", "--status-port", "0", "-L", "info")
	p.await("server is starting")
	p.await("status on ")
	p.press(ctrlC)
	require.Equal(t, 0, p.exitCode())
	require.NotContains(t, p.screen.String(), "fastddl.log")

	// A start that fails says why in one line, and leaves nothing in the folder.
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "x"), nil, 0o600))
	p = startOnTerminal(t, nil, "server", "--path", foreign, "-P", "0", "--status-port", "0")
	require.Equal(t, 1, p.exitCode())
	require.Contains(t, p.screen.String(), "does not hold a store")
	entries, err := os.ReadDir(foreign)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// after returns the rest of the line behind the first occurrence of a text.
func after(text, begin string) string {
	_, rest, _ := strings.Cut(text, begin)
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// TestDemoOnATerminal: its bars do not wrap, and each leaves one line; the console is named.
func TestDemoOnATerminal(t *testing.T) {
	randtest.SkipShort(t)
	p := startOnTerminal(t, nil, "demo", "--rows", "5000", "--phase", "500ms", "--dir", t.TempDir(), "--keep")
	p.await("the server runs on until Ctrl-C")
	p.press(ctrlC)
	require.Equal(t, 0, p.exitCode())
	var bars []string
	for _, line := range p.lines() {
		if name, _, ok := strings.Cut(line, "100% ["); ok {
			bars = append(bars, strings.TrimSpace(name))
		}
	}
	require.Equal(t, []string{"write", "import", "done"}, bars)
	require.Contains(t, p.screen.String(), "console while this runs: http://127.0.0.1:")
}
