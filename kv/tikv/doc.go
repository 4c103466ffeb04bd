// Package tikv is the driver for index builds on a TiKV cluster: package kv's contract
// over the storage that TiDB itself has opened, with its connections, its cache of
// regions, its codec of keyspaces and its way of resolving locks.
//
// Reads are snapshots of client-go. Columns are scanned, rows counted and index entries
// summed up by the coprocessor, so that only what a build needs travels. Garbage
// collection is held by service safe points of PD. Imports are an [Importer]'s.
//
// # Invariants
//
//   - A scan holds a few pages in memory, for rows and regions of any kind: it requests a page at a time, of up to
//     four subranges concurrently, and measures how many rows make a page and how much of the key space they take.
//     Where rows may be long it does not rely on that: the next ones may be longer.
//   - Subranges follow one another without a gap, even if the measurement is wrong, and their rows are returned in order.
//   - A scan ends without an error only if the parts of the key space that TiKV's answers are of tile the range: each begins
//     where the one before ends, over pages, regions, splits and retries.
//   - Each answer has as many rows as TiKV's own reader has counted for it. A TiKV that does not report the number counts the
//     part's records a second time.
//   - A timestamp that PD has not handed out yet is not read at: TiKV would let a
//     transaction commit below it later.
//   - No transaction commits at a timestamp that CurrentTS returns: entries may be imported
//     at it.
//   - A timestamp below the GC safe point is refused before and after each read, by
//     client-go's rule, as those of statements are.
//   - A hold exists when HoldGC returns: PD answers a hold that comes too late with a
//     safe point above it.
//   - [Store.Fence] returns when every region of the ranges, as TiKV itself has had it
//     since the call, has been split, once: its epoch has changed. No cache is trusted for it.
//     That leaves twice the regions, which PD merges again in time.
//
// # What TiKV does not report
//
// The version of an entry (kv.VersionedIterator), and the load of its engine: the load
// signals have no L0 and no compaction debt. An overloaded store answers imports with an
// error that says so.
package tikv
