package memory

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/shirou/gopsutil/v3/mem"
)

// unknownMachine is assumed where the memory of the machine cannot be read.
const unknownMachine = 4 << 30

// Machine is the memory in bytes that the process can have: the machine's, or that
// of the control groups it runs in.
var Machine = sync.OnceValue(func() int64 {
	total := uint64(unknownMachine)
	if m, err := mem.VirtualMemory(); err == nil && m.Total > 0 {
		total = m.Total
	}
	return int64(min(total, groupLimit(os.DirFS("/"))))
})

const (
	noLimit = 1<<63 - 1
	// Where control groups are mounted, and the files with their limits. Version 1 has
	// a hierarchy for memory alone.
	groupsV2, limitV2 = "sys/fs/cgroup", "memory.max"
	groupsV1, limitV1 = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
)

// groupLimit is the least limit of the control groups that this process is in, of either
// version, with those above them. In a container the path of the group is often that
// which the host sees, and only the group at the top is there to be read. TiDB's
// cgroup.GetMemoryLimit reads in version 2 the process's own group only, which in a group
// without a limit below one with a limit says none.
func groupLimit(root fs.FS) uint64 {
	limit := min(readLimit(root, path.Join(groupsV2, limitV2)), readLimit(root, path.Join(groupsV1, limitV1)))
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mount, file := groupsV1, limitV1
		switch {
		case parts[0] == "0" && parts[1] == "":
			mount, file = groupsV2, limitV2
		case !strings.Contains(","+parts[1]+",", ",memory,"):
			continue
		}
		for group := path.Clean("/" + parts[2]); group != "/"; group = path.Dir(group) {
			limit = min(limit, readLimit(root, path.Join(mount, group, file)))
		}
	}
	return limit
}

// readLimit reads a limit in bytes. There is none in a file that is not there or says
// "max".
func readLimit(root fs.FS, name string) uint64 {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return noLimit
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n == 0 {
		return noLimit
	}
	return min(n, noLimit)
}
