package ingest

import (
	"fmt"
	"sync"
)

const (
	blockShift = 14
	// blockSize is the size of an arena's blocks in bytes. Each partition of an
	// index has a block that is not full, for each worker.
	blockSize = 1 << blockShift
	blockMask = blockSize - 1
	// slabSize is what is asked of the operating system at a time: a few of its
	// huge pages.
	slabSize = 8 << 20
)

type block = [blockSize]byte

// blockMemory hands out blocks of memory that the garbage collector does not
// know. On its heap, the blocks of a build made it collect ten times a second,
// with threads of usual priority, and each was cleared in pages of 4 KiB.
//
// Blocks are kept for as long as there is a job: the quota that jobs fill bounds
// them.
type blockMemory struct {
	mu    sync.Mutex
	jobs  int
	slabs [][]byte
	free  []*block
}

var blocks blockMemory

// open says that a job begins, which must call close when it has put back all
// its blocks.
func (m *blockMemory) open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs++
}

// close gives everything back to the operating system with the last job.
func (m *blockMemory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobs--; m.jobs > 0 {
		return nil
	}
	slabs := m.slabs
	m.slabs, m.free = nil, nil
	for _, slab := range slabs {
		if err := unmapSlab(slab); err != nil {
			return fmt.Errorf("ingest: give back memory: %w", err)
		}
	}
	return nil
}

func (m *blockMemory) get() (*block, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.free) == 0 {
		slab, err := mapSlab(slabSize)
		if err != nil {
			return nil, fmt.Errorf("ingest: get memory: %w", err)
		}
		m.slabs = append(m.slabs, slab)
		for rest := slab; len(rest) >= blockSize; rest = rest[:len(rest)-blockSize] {
			m.free = append(m.free, (*block)(rest[len(rest)-blockSize:]))
		}
	}
	b := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return b, nil
}

func (m *blockMemory) put(b *block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, b)
}
