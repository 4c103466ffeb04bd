package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
	"fastddl/internal/sleep"
)

// TestBuildWorkersUnderRandomLoad is TestKillsUnderRandomLoad with builds in workers that are killed and stopped, too: the server
// never ends of that, and nothing stays in the store's folder.
func TestBuildWorkersUnderRandomLoad(t *testing.T) {
	randtest.SkipShort(t)
	forSeeds(t, func(t *testing.T, seed uint64, until time.Time) tally {
		r := newRun(seed, t.TempDir())
		r.lifetime = 2 * shortLife
		h := &workerHarm{run: r}
		var err error
		if h.memory, err = newMemoryGroup(t); err != nil {
			t.Logf("no worker dies of lack of memory: %v", err)
		}
		r.start = func() *servertest.Node {
			n := servertest.Start(t, binary, r.dir)
			_, err := n.Open("").Exec("SET GLOBAL fastddl_ddl_worker = ON")
			require.NoError(t, err)
			return n
		}
		r.inject = h.inject
		sum := r.search(t, seed, until)
		require.NoError(t, leftBehind(r.dir))
		var starved int64
		if h.memory != nil {
			starved, err = h.memory.kills()
			require.NoError(t, err)
		}
		return append(sum, count{"build workers killed", int(h.killed.Load())}, count{"build workers stopped", int(h.stopped.Load())},
			count{"build workers out of memory", int(starved)})
	})
}

// leftBehind fails if the folder of a server that has ended has something of workers.
func leftBehind(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && (strings.HasPrefix(entry.Name(), "job-") || filepath.Base(filepath.Dir(path)) == "checkpoint") {
			return fmt.Errorf("%s is left", path)
		}
		return err
	})
}

// workerHarm kills and stops the build workers of a server, and takes their memory away.
type workerHarm struct {
	run *run
	// memory is where the kernel kills them; nil if there can be none.
	memory          *memoryGroup
	killed, stopped atomic.Int64
}

// inject does so at random moments until ctx ends.
func (h *workerHarm) inject(ctx context.Context, rng *rand.Rand) error {
	for sleep.For(ctx, time.Duration(rng.IntN(1500))*time.Millisecond) {
		for _, pid := range buildWorkers(h.run.node.Cmd.Process.Pid) {
			switch rng.IntN(4) {
			case 0:
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					h.killed.Add(1)
				}
			case 1:
				if syscall.Kill(pid, syscall.SIGSTOP) == nil {
					h.stopped.Add(1)
				}
				sleep.For(ctx, time.Duration(rng.IntN(500))*time.Millisecond)
				_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended
			case 2:
				if h.memory == nil {
					continue
				}
				_ = h.memory.take(pid) // it may have ended
			}
		}
	}
	return nil
}

// buildWorkers returns the processes that build for a server.
func buildWorkers(server int) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(server) {
			pids = append(pids, pid)
		}
	}
	return pids
}
