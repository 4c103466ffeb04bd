package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/sleep"
)

// memoryGroup is a memory control group of a server and its workers.
type memoryGroup struct {
	dir string
	// limitFile has the limit, of which none is no limit.
	limitFile, none string
	// anonymous is the name of what cannot be reclaimed in memory.stat.
	anonymous string
	// killsFile counts the processes that the kernel has killed for lack of memory.
	killsFile string
}

// newMemoryGroup makes a group, or returns why there can be none.
func newMemoryGroup(t *testing.T) (*memoryGroup, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g := &memoryGroup{}
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy:controllers:path
		switch {
		case len(parts) != 3:
		case parts[1] == "memory":
			*g = memoryGroup{"/sys/fs/cgroup/memory" + parts[2], "memory.limit_in_bytes", "-1", "total_rss", "memory.oom_control"}
		case parts[0] == "0" && g.dir == "":
			*g = memoryGroup{"/sys/fs/cgroup" + parts[2], "memory.max", "max", "anon", "memory.events"}
		}
	}
	dir := filepath.Join(g.dir, fmt.Sprintf("fastddl-crash-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("no memory control group can be made: %w", err)
	}
	g.dir = dir
	// A process leaves its group a moment after its end.
	t.Cleanup(func() {
		require.Eventually(t, func() bool { err := os.Remove(dir); return err == nil || errors.Is(err, fs.ErrNotExist) }, time.Minute, 10*time.Millisecond)
	})
	if _, err := os.Stat(filepath.Join(dir, g.limitFile)); err != nil {
		return nil, fmt.Errorf("control groups here do not divide memory: %w", err)
	}
	return g, nil
}

// program writes a program that joins the group and executes binary, and returns its path.
func (g *memoryGroup) program(t *testing.T, binary string) string {
	path := filepath.Join(t.TempDir(), "fastddl")
	text := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && exec %s \"$@\"\n", g.dir, binary)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// leave limits the memory of the group to what it uses and free bytes; without free there is no limit.
func (g *memoryGroup) leave(free int64) error {
	limit := g.none
	if free > 0 {
		used, err := g.field("memory.stat", g.anonymous)
		if err != nil {
			return err
		}
		limit = strconv.FormatInt(used+free, 10)
	}
	return os.WriteFile(filepath.Join(g.dir, g.limitFile), []byte(limit), 0)
}

// kills returns how many processes of the group the kernel has killed.
func (g *memoryGroup) kills() (int64, error) { return g.field(g.killsFile, "oom_kill") }

func (g *memoryGroup) field(file, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, name)
}

// starve leaves the group hardly any memory until a process of it has ended, or a second has passed. It reports whether the kernel
// has killed one.
func (g *memoryGroup) starve(ctx context.Context, pid int) (killed bool, err error) {
	before, err := g.kills()
	if err != nil {
		return false, err
	}
	if g.leave(4<<20) != nil {
		return false, g.leave(0) // more is used that cannot be reclaimed
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || !sleep.For(ctx, time.Millisecond) {
			break
		}
	}
	if err := g.leave(0); err != nil {
		return false, err
	}
	after, err := g.kills()
	return after > before, err
}
