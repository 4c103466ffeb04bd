package kv

import (
	"context"
	"time"
)

// Store is what an index build needs of a multi-version key-value store. All
// methods may be called concurrently.
type Store interface {
	// Name names the driver: "pebble" or "tikv".
	Name() string

	// Snapshot opens a read view at ts, waiting for commits at or below ts that
	// are still in flight. It fails with ErrSnapshotTooOld below the GC safe
	// point. A ts above CurrentTS is an error. The caller must Close it.
	Snapshot(ctx context.Context, ts uint64) (Snapshot, error)

	// CurrentTS returns a fresh timestamp, greater than every one returned
	// before and than every commit timestamp acknowledged before.
	CurrentTS(ctx context.Context) (uint64, error)

	// Ranges cuts r into adjacent, non-overlapping pieces in key order that
	// cover it: the natural units of parallel work (SST boundaries, regions).
	// It returns at least one piece for a non-empty range.
	Ranges(ctx context.Context, r KeyRange) ([]SizedRange, error)

	// ScanColumns scans the rows of one table at a timestamp and hands out only
	// the handle and the columns asked for, in key order, in batches. It
	// returns the first error of fn or of the scan. A batch is valid only
	// during the call of fn.
	ScanColumns(ctx context.Context, req ScanRequest, fn func(*RowBatch) error) error

	// NewImportWriter opens a writer of one import unit.
	NewImportWriter(ctx context.Context, opts ImportOptions) (ImportWriter, error)

	// Import links finished units into the store and consumes them: after
	// success every pair is durable and visible to snapshots at or after the
	// units' version. Units of one call must not overlap each other. On error
	// some units may have been imported; importing them again is harmless, and
	// the units that were not consumed are still to be discarded. It fails with a
	// *DamagedUnitError if a file is not what its writer has finished, or if the
	// store has taken in something else.
	Import(ctx context.Context, units []ImportUnit) error

	// HoldGC keeps every version that a snapshot at ts needs until the hold is
	// released or, so that a dead holder cannot block GC for good, until ttl
	// has passed since the last Renew. Holds are durable; one with the same
	// name replaces the earlier one. It fails with ErrSnapshotTooOld when GC
	// has passed ts already.
	HoldGC(ctx context.Context, name string, ts uint64, ttl time.Duration) (GCHold, error)

	// GCHolds lists the holds that are in force, by name.
	GCHolds(ctx context.Context) (map[string]uint64, error)

	// GCSafePoint returns the timestamp up to which old versions may have been
	// collected: no snapshot below it exists, now or later. Work that takes
	// away data which older snapshots may still read waits until it has passed.
	GCSafePoint(ctx context.Context) (uint64, error)

	// DeleteRange removes every version of every key in r at once, from all
	// snapshots. The caller makes sure that they are neither needed nor written. It
	// is durable when it returns, changes nothing outside r, conflicts with no
	// writer, and may be repeated; the space comes back in the background. A caller that
	// gives back a lot does so in pieces, as Ranges cuts them.
	DeleteRange(ctx context.Context, r KeyRange) error

	// LoadSignals returns the store's current load, for flow control. It is
	// cheap enough to be polled several times a second.
	LoadSignals() LoadSignals

	// Close waits for running operations and closes the store.
	Close() error
}

// Retriever reads keys.
type Retriever interface {
	// Get returns the value of key or ErrNotExist. The caller owns the slice.
	Get(ctx context.Context, key []byte) ([]byte, error)
	// Iter iterates over r in ascending key order.
	Iter(r KeyRange) (Iterator, error)
	// IterReverse iterates over r in descending key order.
	IterReverse(r KeyRange) (Iterator, error)
}

// Iterator walks over live keys. It starts on the first entry, if any:
//
//	for ; it.Valid(); err = it.Next() { ... }
//
// Key and Value are valid until the next call of Next or Close.
type Iterator interface {
	// Valid reports whether the iterator stands on an entry.
	Valid() bool
	Key() []byte
	Value() []byte
	// Next moves on. After an error the iterator is not valid any more.
	Next() error
	Close() error
}

// Snapshot is a read view of the store at one timestamp. It may be used
// concurrently.
type Snapshot interface {
	Retriever
	TS() uint64
	// Count returns the number of keys in r, without reading their values.
	Count(ctx context.Context, r KeyRange) (int64, error)
	Close() error
}

// SizedRange is a key range with its approximate size in the store.
type SizedRange struct {
	KeyRange
	// Bytes is the approximate size on disk; 0 when unknown.
	Bytes uint64
}

// GCHold protects versions from garbage collection. See Store.HoldGC.
type GCHold interface {
	TS() uint64
	// Renew extends the hold by ttl from now. It fails if the hold has expired
	// and GC has passed its timestamp.
	Renew(ctx context.Context, ttl time.Duration) error
	// Release ends the hold. Releasing twice does nothing.
	Release(ctx context.Context) error
}

// LoadSignals is a store's load at one moment.
type LoadSignals struct {
	// L0Sublevels is the read amplification of L0 (embedded store).
	L0Sublevels int
	// CompactionDebtBytes estimates what is left to compact.
	CompactionDebtBytes uint64
	// CommitP99 is the 99th percentile of commit latency over the last seconds,
	// 0 when nothing was committed.
	CommitP99 time.Duration
	// CommitsPerSecond is the commit rate over the last seconds.
	CommitsPerSecond float64
	// WriteStalled says that writers are being held back now.
	WriteStalled bool
}
