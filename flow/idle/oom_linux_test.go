package idle

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// playAllocate takes memory until the kernel has none left.
func playAllocate() error {
	var all [][]byte
	for range 1 << 10 {
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = 1
		}
		all = append(all, block)
	}
	return fmt.Errorf("the kernel gave %d MiB", len(all))
}

// playServer starts a process that takes memory, in its own memory control group, kills it when its output ends, and prints how it ended.
func playServer() error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=allocate", joinVariable+"=")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p, err := Start(cmd, Options{})
	if err != nil {
		return err
	}
	if _, err := io.ReadAll(out); err != nil {
		return err
	}
	_ = p.Kill() // as who sees a connection end does
	err = p.Wait()
	fmt.Printf("%v %v\n", err, p.KilledByOOM())
	return nil
}

// TestKilledByOOM: in a control group without memory the kernel kills the process, not the server, and the server
// knows why.
func TestKilledByOOM(t *testing.T) {
	group := container(t, "memory")
	require.NoError(t, writeFile(filepath.Join(group, "memory.limit_in_bytes"), fmt.Sprint(96<<20)))
	exe, err := os.Executable()
	require.NoError(t, err)
	server := exec.Command(exe)
	server.Env = append(os.Environ(), roleVariable+"=server", joinVariable+"="+group)
	server.Stderr = os.Stderr
	out, err := server.Output()
	require.NoError(t, err)
	require.Equal(t, "signal: killed true", strings.TrimSpace(string(out)))
}

// TestOOMCounterChoosesFiles: a control group counts its own; without one the machine does.
func TestOOMCounterChoosesFiles(t *testing.T) {
	tr := newFakeTree(t, 2, "/a/server")
	tr.write("proc/vmstat", "nr_free 1\noom_kill 7\n")
	own := tr.path("sys/fs/cgroup/a/fastddl-worker-1-1")
	c := tr.newOOMCounter(own)
	require.Equal(t, []string{tr.path("proc/vmstat")}, c.files)
	require.EqualValues(t, 7, c.before)

	tr.write("sys/fs/cgroup/a/memory.events", "low 0\noom 3\noom_kill 2\n")
	c = tr.newOOMCounter("")
	require.EqualValues(t, 2, c.before)
	tr.write("proc/vmstat", "oom_kill 8\n")
	require.False(t, c.grown(), "a process elsewhere")
	tr.write("sys/fs/cgroup/a/memory.events", "low 0\noom 3\noom_kill 3\n")
	require.True(t, c.grown())

	tr.write("sys/fs/cgroup/a/fastddl-worker-1-1/memory.events", "oom_kill 1\n")
	c = tr.newOOMCounter(own)
	require.EqualValues(t, 4, c.before)
}
