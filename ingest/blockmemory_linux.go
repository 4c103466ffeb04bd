//go:build linux && !race

package ingest

import "golang.org/x/sys/unix"

// mapSlab returns memory from the operating system, in huge pages if it has any.
func mapSlab(size int) ([]byte, error) {
	slab, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	// A kernel without huge pages gives others.
	_ = unix.Madvise(slab, unix.MADV_HUGEPAGE)
	return slab, nil
}

func unmapSlab(slab []byte) error { return unix.Munmap(slab) }
