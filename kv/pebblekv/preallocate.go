package pebblekv

// firstPreallocation is what a log gets of the disk when it is begun.
const firstPreallocation = 1 << 20

// Preallocate is an optimisation, which spares the file system to look for space at each sync of the log. The engine asks
// for room for a full memtable, which the logs of a small store never have: its first memtables are small, and their logs
// are kept to be written again. So a log gets twice as much as it holds, each time that it has filled what it got.
func (f *engineFile) Preallocate(offset, length int64) error {
	if f.category != categoryLog {
		return f.occupy(offset, length)
	}
	f.wanted = offset + length
	return f.extend(f.offset.Load())
}

// preallocate sees to it that a log has room for n more bytes.
func (f *engineFile) preallocate(n int64) {
	if end := f.offset.Load() + n; end > f.allocated && f.allocated < f.wanted {
		_ = f.extend(end) // an optimisation: the write itself says if there is no room
	}
}

// extend preallocates what a log of size bytes is to have.
func (f *engineFile) extend(size int64) error {
	next := min(max(firstPreallocation, 2*size), f.wanted)
	if next <= f.allocated {
		return nil
	}
	from := f.allocated
	f.allocated = next
	return f.occupy(from, next-from)
}

// occupy preallocates a part of the file, but where space is short, where that does harm.
func (f *engineFile) occupy(offset, length int64) error {
	if m := f.fs.space; m.enabled() && m.estimate() < m.limits.low+uint64(length) {
		return nil
	}
	return f.File.Preallocate(offset, length)
}
