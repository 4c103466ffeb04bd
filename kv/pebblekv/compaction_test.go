package pebblekv

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// priorityFS notes the priority of the threads that create files, by category.
type priorityFS struct {
	vfs.FS
	mu         sync.Mutex
	priorities map[vfs.DiskWriteCategory]map[int]bool
	processors int // of the scheduler, when a compaction last created a file
}

func (f *priorityFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	// The system call gives 20 minus the nice value.
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.priorities[category] == nil {
		f.priorities[category] = make(map[int]bool)
	}
	f.priorities[category][priority] = true
	if category == "pebble-compaction" {
		f.processors = runtime.GOMAXPROCS(0)
	}
	f.mu.Unlock()
	return f.FS.Create(name, category)
}

func TestCompactionsRunAtLowPriority(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have priorities on Linux only")
	}
	usual, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	require.NoError(t, err)
	if usual != 20 {
		t.Skip("this process has another priority itself")
	}
	before := runtime.GOMAXPROCS(0)

	fs := &priorityFS{FS: vfs.NewMem(), priorities: make(map[vfs.DiskWriteCategory]map[int]bool)}
	s := open(t, "store", Options{FS: fs})
	for i := range 3 {
		put(t, s, "a", fmt.Sprint(i), "z", fmt.Sprint(i))
		require.NoError(t, s.db.Flush())
	}
	require.NoError(t, s.db.Compact(t.Context(), appendBare(nil, []byte("a")), appendBare(nil, []byte("zz")), false))

	fs.mu.Lock()
	defer fs.mu.Unlock()
	require.Equal(t, map[int]bool{usual - 10: true}, fs.priorities["pebble-compaction"])
	require.Equal(t, map[int]bool{usual: true}, fs.priorities["pebble-memtable-flush"], "writers may have to wait for a flush")
	require.Greater(t, fs.processors, before, "a processor of its own")
	require.Eventually(t, func() bool { return runtime.GOMAXPROCS(0) == before }, soon, time.Millisecond, "given back")
}

// TestCompactionsOfHighL0DoNotWait: below, a statement would wait for them.
func TestCompactionsOfHighL0DoNotWait(t *testing.T) {
	table := func(from, to string) pebble.TableInfo {
		key := func(k string) pebble.InternalKey {
			return pebble.InternalKey{UserKey: appendBare(nil, []byte(k))}
		}
		return pebble.TableInfo{Smallest: key(from), Largest: key(to)}
	}
	var beside, over []pebble.TableInfo
	for i := range urgentDepth {
		beside = append(beside, table(fmt.Sprintf("%02d", i), fmt.Sprintf("%02d", i)))
		over = append(over, table(fmt.Sprintf("%02d", i), "50"))
	}
	for _, tc := range []struct {
		name   string
		level  int
		tables []pebble.TableInfo
		urgent bool
	}{
		{"nothing", 0, nil, false},
		{"many beside each other", 0, beside, false},
		{"over each other", 0, over, true},
		{"one less", 0, over[1:], false},
		{"touching", 0, append(over[1:], table("50", "51")), true},
		{"in another level", 5, over, false},
	} {
		info := pebble.CompactionInfo{Input: []pebble.LevelInfo{{Level: tc.level, Tables: tc.tables}, {Level: 6, Tables: over}}}
		require.Equal(t, tc.urgent, urgent(info), tc.name)
	}
}
