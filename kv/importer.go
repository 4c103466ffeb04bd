package kv

import "context"

// ImportOptions describes one import unit.
type ImportOptions struct {
	// Dir is an existing folder for the unit's file, if the driver needs one.
	Dir string
	// Version is the commit timestamp of every pair in the unit.
	Version uint64
	// RangeReadsOnly says that the pairs will be read by ranges, hardly ever by
	// key, as those of a non-unique index are. The driver may leave out what
	// serves point reads only, which takes time to write and space.
	RangeReadsOnly bool
	// Overlaps says that other units may hold pairs between those of this one. A store
	// that keeps files in levels cannot put them into the same one, so the driver makes
	// few of them.
	Overlaps bool
}

// ImportWriter writes one import unit: sorted pairs at one version.
type ImportWriter interface {
	// Add appends a pair. Keys must increase strictly and values must not be
	// empty. It does not keep the slices. It fails with ErrSameKey for the last key.
	Add(key, value []byte) error
	// EstimatedSize is the number of bytes the unit occupies so far.
	EstimatedSize() uint64
	// Finish completes the unit, synced to disk, ready for Store.Import. A unit
	// without pairs is an error.
	Finish(ctx context.Context) (ImportUnit, error)
	// Abort drops the unit and its file. After Finish it does nothing.
	Abort() error
}

// ImportUnit is a finished unit of sorted pairs.
type ImportUnit interface {
	// Range covers exactly the unit's keys: Start is the first, End the
	// successor of the last.
	Range() KeyRange
	// Size is the number of bytes on disk; Count the number of pairs.
	Size() uint64
	Count() int
	// Discard removes the unit's file, if Import has not consumed it.
	Discard() error
}
