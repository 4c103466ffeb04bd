package kv

import (
	"context"
	"hash/crc64"
	"iter"

	"github.com/pingcap/tidb/pkg/meta/model"
)

// Checksummer is a store that sums up the pairs of a range where they are, so that
// looking whether they are right moves no data. Stores that are read as fast as they
// are summed up do without.
type Checksummer interface {
	// Checksum sums up what a snapshot at ts sees of r. It fails like Snapshot.
	Checksum(ctx context.Context, r KeyRange, ts uint64) (Checksum, error)
}

// Checksum sums up pairs, in any order: as TiKV does for ADMIN CHECKSUM TABLE.
type Checksum struct {
	// Pairs is their number, Bytes the length of their keys and values.
	Pairs int64
	Bytes int64
	// CRC is the exclusive or of the CRC-64 (ECMA) of each key followed by its value.
	CRC uint64
	// Records is how many records were met where the pairs are: versions of any kind, newer ones and those that
	// others hide included, or more. If there are as many as pairs, each key of the range has one record and a
	// snapshot sees it. 0 if the store does not report it.
	Records int64
}

// Add adds o, the sum of other pairs.
func (c *Checksum) Add(o Checksum) {
	c.Pairs += o.Pairs
	c.Bytes += o.Bytes
	c.CRC ^= o.CRC
	c.Records += o.Records
}

var crcTable = crc64.MakeTable(crc64.ECMA)

// UpdateCRC returns the CRC of what crc is of, followed by data. That of nothing is 0.
func UpdateCRC(crc uint64, data []byte) uint64 { return crc64.Update(crc, crcTable, data) }

// Fencer is a store that takes imports from several processes and can shut a late one
// out.
type Fencer interface {
	// Fence makes sure that no import of units in the ranges that was sent before the call, by
	// any process, takes effect after it has returned: it has either happened, or
	// fails in such a way that its sender asks CheckPermit before it sends it again.
	// Imports that are sent later are not affected. It changes no data and may be
	// repeated.
	Fence(ctx context.Context, ranges ...KeyRange) error
}

// LockSettler is a store in which a transaction that has locked a key and not written it may leave
// its lock behind, where no reader sees it, and whose record, once it is written, can hide what was
// imported below it: it says of the key what was so when it was locked.
type LockSettler interface {
	// SettleLocks returns when no key of the ranges is prewritten as merely locked any more, by a
	// transaction that began at or before a timestamp that was handed out: a snapshot at a later
	// one is of the records that are left instead. It ends transactions whose clients are gone,
	// and waits for others.
	SettleLocks(ctx context.Context, before uint64, ranges ...KeyRange) error
}

// ShadowFinder is a store in which the record of a lock can hide an older value from readers until
// garbage collection removes the record: see LockSettler.
type ShadowFinder interface {
	// CountAll returns how many keys of the ranges have a value at ts, those included that snapshots
	// at ts do not see. The ranges are parts of one index, in any of its partitions. It fails like Snapshot.
	CountAll(ctx context.Context, ranges []KeyRange, ts uint64, columns EntryColumns) (int64, error)
	// Shadowed calls fn with each key of such ranges that has a value at ts which snapshots at ts do
	// not see all the same. A key is valid during the call. It ends with the first error of fn,
	// and fails like Snapshot.
	Shadowed(ctx context.Context, ranges []KeyRange, ts uint64, columns EntryColumns, fn func(key []byte) error) error
}

// EntryColumns are what the entries of an index are made of.
type EntryColumns struct {
	// Index is the index's columns, Handle those of the table's primary key if the handles of its
	// rows consist of them, none if they are integers.
	Index, Handle []*model.ColumnInfo
}

// VersionedIterator is an Iterator that returns the version of each entry.
type VersionedIterator interface {
	Iterator
	// TS is the commit timestamp of the version that the entry is of.
	TS() uint64
}

// VersionedSnapshot is a Snapshot of a store whose iterators do not return versions, but
// which can be asked for that of a key. That costs a request.
type VersionedSnapshot interface {
	Snapshot
	// Version is the commit timestamp of the version that the snapshot sees of key. It
	// fails with ErrNotExist if it sees none.
	Version(ctx context.Context, key []byte) (uint64, error)
}

// ChangeFinder is a store that finds what has changed since a timestamp without reading what
// has not.
type ChangeFinder interface {
	// Changes calls fn with each key of r that has a version in (after, upTo], a deletion or
	// one that later ones hide included, once and in order; a key is valid during the call. It
	// waits for commits at or below upTo that are still in flight. It ends with the first error
	// of fn. It fails with ErrSnapshotTooOld if versions above after may have been collected,
	// and if upTo is below the GC safe point.
	Changes(ctx context.Context, r KeyRange, after, upTo uint64, fn func(key []byte) error) error
}

// UnchangedCounter is a store that can count keys and find out meanwhile that none of them has changed since a timestamp.
type UnchangedCounter interface {
	// CountUnchanged counts the keys of r that a snapshot at since has. unchanged says that one at upTo,
	// which was handed out, has the same keys with the same values. If it does not, they may have all the same, and n
	// means nothing. The caller holds versions at since from garbage collection. It fails like Snapshot. Keys that scans at
	// since were to remember may not be counted again: see ScanRequest.Remember.
	CountUnchanged(ctx context.Context, r KeyRange, since, upTo uint64) (n int64, unchanged bool, err error)
}

// ScanCounter is a store whose scans count what they visit: RowBatch.Visited is the number of records that the
// store's own reading has met for the batch, counted apart from what was decoded and handed out.
// ScanColumns returns nil only if the parts that it has read tile the request's range.
type ScanCounter interface{ CountsScans() }

// Metered is a store that counts what it asks of other processes: see WithMeter.
type Metered interface {
	// Metered returns a context whose requests are added to the meter of ctx.
	Metered(ctx context.Context) context.Context
}

// UnitSizer is a store that knows how large imported pairs become in it.
type UnitSizer interface {
	// UnitSize returns how many bytes the pairs, in ascending order of their keys, occupy in one replica of the store after an
	// import with opts: their blocks and the part of indexes and filters that grows with them, without the fixed parts of a
	// file. It writes nothing to disk.
	UnitSize(ctx context.Context, opts ImportOptions, pairs iter.Seq2[[]byte, []byte]) (uint64, error)
}

// Room is the room of the stores of a cluster, in bytes.
type Room struct {
	// Stores is their number, Replicas of how many of them each key has a copy.
	Stores, Replicas int
	// Available is what imports may fill of all stores together: what the stores keep free is left out.
	Available uint64
	// Least is that of the store that has least.
	Least uint64
}

// RoomReporter is a store of several machines that reports what room they have.
type RoomReporter interface {
	// Room asks the cluster. known is false if it does not say.
	Room(ctx context.Context) (room Room, known bool, err error)
}
