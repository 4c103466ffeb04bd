package peer

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/sbtest"
)

func startShell(t *testing.T, script string) *process {
	t.Helper()
	dir := t.TempDir()
	p, err := startProcess(account{}.command(dir, "/bin/sh", "-c", script), filepath.Join(dir, "log"), syscall.SIGTERM, syscall.SIGKILL)
	require.NoError(t, err)
	t.Cleanup(p.kill)
	return p
}

func TestServerThatEndsSaysWhy(t *testing.T) {
	p := startShell(t, "echo no space left; exit 3")
	err := p.awaitAnswer(t.Context(), func(context.Context) error { return errors.New("refused") })
	require.ErrorContains(t, err, "no space left")
	require.ErrorContains(t, err, "exit status 3")
}

func TestServerThatDoesNotStopIsKilled(t *testing.T) {
	p := startShell(t, "trap '' TERM; echo up; while :; do sleep 0.05; done")
	awaitUp(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.stop(ctx), context.DeadlineExceeded)
	p.kill()
	require.Error(t, syscall.Kill(p.cmd.Process.Pid, 0), "it is gone")
}

// awaitUp waits until a script has said up, after setting its traps.
func awaitUp(t *testing.T, p *process) {
	t.Helper()
	require.NoError(t, p.awaitAnswer(t.Context(), func(context.Context) error {
		if !strings.Contains(p.logTail(), "up") {
			return errors.New("not yet")
		}
		return nil
	}))
}

func TestServerStopsInOrder(t *testing.T) {
	p := startShell(t, "trap 'echo flushed; exit 0' TERM; echo up; while :; do sleep 0.05; done")
	awaitUp(t, p)
	require.NoError(t, p.stop(t.Context()))
	require.Contains(t, p.logTail(), "flushed")
}

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"14", "15"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, version), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, version, "serverd"), nil, 0o755))
	}
	found, err := findProgram("serverd", filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "15", "serverd"), found)
	_, err = findProgram("serverd")
	require.EqualError(t, err, "serverd is not installed")
}

func TestLoadInChunksCopiesEveryRowOnce(t *testing.T) {
	g := sbtest.Generator{Rows: 45_678, Seed: 1}
	var (
		mu   sync.Mutex
		rows = make(map[string]bool)
		told int
	)
	err := loadInChunks(t.Context(), g, 2, 3, func(n int) { mu.Lock(); told = max(told, n); mu.Unlock() },
		func(_ context.Context, r io.Reader) error {
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for line := range strings.Lines(string(text)) {
				if rows[line] {
					return errors.New("twice: " + line)
				}
				rows[line] = true
			}
			return nil
		})
	require.NoError(t, err)
	require.Len(t, rows, g.Rows)
	require.Equal(t, g.Rows, told)

	full := errors.New("disk full")
	err = loadInChunks(t.Context(), g, 1, 2, func(int) {}, func(context.Context, io.Reader) error { return full })
	require.ErrorIs(t, err, full)
}
