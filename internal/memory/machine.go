package memory

import (
	"bytes"
	"os"
	"strconv"
	"sync"

	"github.com/shirou/gopsutil/v3/mem"
)

// unknownMachine is assumed of a machine that does not tell.
const unknownMachine = 4 << 30

// Machine is the memory in bytes that the process can have: the machine's, or that
// of the control group it runs in.
var Machine = sync.OnceValue(func() int64 {
	total := uint64(unknownMachine)
	if m, err := mem.VirtualMemory(); err == nil {
		total = m.Total
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64); err == nil {
			total = min(total, n)
		}
	}
	return int64(total)
})
