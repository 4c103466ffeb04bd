package crash

import (
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
)

// groupMemory is the limit of a memoryGroup in bytes, less than a worker takes while it begins.
const groupMemory = 4 << 20

// memoryGroup is a memory control group with hardly any memory.
type memoryGroup struct {
	dir string
	// killsFile counts the processes that the kernel has killed for lack of memory.
	killsFile string
}

// newMemoryGroup makes a group, or returns why there can be none.
func newMemoryGroup(t *testing.T) (*memoryGroup, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g, limitFile := &memoryGroup{}, ""
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy:controllers:path
		switch {
		case len(parts) != 3:
		case parts[1] == "memory":
			*g, limitFile = memoryGroup{"/sys/fs/cgroup/memory" + parts[2], "memory.oom_control"}, "memory.limit_in_bytes"
		case parts[0] == "0" && g.dir == "":
			*g, limitFile = memoryGroup{"/sys/fs/cgroup" + parts[2], "memory.events"}, "memory.max"
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
	if err := os.WriteFile(filepath.Join(dir, limitFile), []byte(strconv.Itoa(groupMemory)), 0); err != nil {
		return nil, fmt.Errorf("control groups here do not limit memory: %w", err)
	}
	return g, nil
}

// take moves a process to the group. What it has is not counted there, and it gets no more than the limit.
func (g *memoryGroup) take(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// kills returns how many processes of the group the kernel has killed.
func (g *memoryGroup) kills() (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.killsFile))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == "oom_kill" {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no oom_kill", g.killsFile)
}
