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
		h, program := &workerHarm{run: r}, binary
		group, err := newMemoryGroup(t)
		if err == nil {
			h.memory, program = group, group.program(t, binary)
		} else {
			t.Logf("no worker dies of lack of memory: %v", err)
		}
		r.start = func() *servertest.Node {
			n := servertest.Start(t, program, r.dir)
			_, err := n.Open("").Exec("SET GLOBAL fastddl_ddl_worker = ON")
			require.NoError(t, err)
			if h.memory != nil { // the kernel would kill the server if the worker has just ended
				require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", n.Cmd.Process.Pid), []byte("-1000"), 0))
			}
			return n
		}
		r.inject = h.inject
		sum := r.search(t, seed, until)
		require.NoError(t, leftBehind(r.dir))
		return append(sum, count{"build workers killed", int(h.killed.Load())}, count{"build workers stopped", int(h.stopped.Load())},
			count{"build workers out of memory", int(h.starved.Load())})
	})
}

// TestBuildWorkersOutOfMemory: where memory is short the kernel kills the worker, not the server. A build whose workers were killed twice
// fails, and nothing of it stays; with more memory it succeeds.
func TestBuildWorkersOutOfMemory(t *testing.T) {
	group, err := newMemoryGroup(t)
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	n := servertest.Start(t, group.program(t, binary), dir)
	db := n.Open("test")
	for _, query := range []string{
		"SET GLOBAL fastddl_ddl_worker = ON",
		"CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, a INT, b CHAR(100))",
		"INSERT INTO t (a, b) VALUES (1, REPEAT('x', 100)), (2, REPEAT('y', 100))",
	} {
		_, err := db.Exec(query)
		require.NoError(t, err, query)
	}
	for range 14 {
		_, err := db.Exec("INSERT INTO t (a, b) SELECT a * 7 + 3, MD5(id) FROM t")
		require.NoError(t, err)
	}
	require.NoError(t, group.leave(32<<20))
	_, err = db.Exec("ALTER TABLE t ADD INDEX i (b, a)")
	require.NoError(t, group.leave(0))
	require.ErrorContains(t, err, "was ended for lack of memory twice")
	require.False(t, n.Exited())
	require.NoError(t, leftBehind(dir))
	kills, err := group.kills()
	require.NoError(t, err)
	require.EqualValues(t, 2, kills)

	_, err = db.Exec("ALTER TABLE t ADD INDEX i (b, a)")
	require.NoError(t, err)
	_, err = db.Exec("ADMIN CHECK TABLE t")
	require.NoError(t, err)
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
	// memory is the group of the server; nil if there is none.
	memory                   *memoryGroup
	killed, stopped, starved atomic.Int64
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
				killed, err := h.memory.starve(ctx, pid)
				if err != nil {
					return err
				}
				if killed {
					h.starved.Add(1)
				}
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
