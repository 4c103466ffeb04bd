// Package kv is what an index build needs of a multi-version key-value store,
// to build inside it while it is in use. Transactions are not part of it: they
// are TiDB's business and the store's.
//
// A driver implements [Store]; everything above speaks to the interfaces in
// this package only and does not know which driver it runs on. The suite in
// kv/kvtest states the contract as tests, and every driver runs it.
//
// # Model
//
// A key has versions, each with the commit timestamp of the transaction that
// wrote it. A version is a value or a tombstone. A snapshot at ts sees, of each
// key, the newest version at or below ts; a key whose newest version is a
// tombstone does not exist. Timestamps have TiDB's layout: 46 bits of Unix
// milliseconds, 18 bits of logical counter.
//
// # Invariants
//
//   - Timestamps handed out by one store increase strictly, also over restarts.
//   - A snapshot at ts contains every transaction whose commit timestamp is at
//     or below ts, completely, and nothing else; it never changes while it is
//     held or protected from garbage collection.
//   - A deletion is stored as a tombstone always, whether or not the key exists
//     and whether or not the same transaction wrote it before. Only garbage
//     collection removes tombstones, and only those at or below its safe point.
//   - What a commit or Import acknowledged survives a crash (unless the driver
//     does not sync by its options); what failed leaves nothing.
//   - An imported pair is a version like any other, at the timestamp named by
//     the importer: newer versions shadow it, and importing the same pair at
//     the same timestamp again changes nothing.
//   - The GC safe point never passes the timestamp of a live hold, nor of an
//     open snapshot of this process.
package kv
