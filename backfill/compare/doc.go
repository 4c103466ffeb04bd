// Package compare compares the rows of a table with its indexes at a timestamp T. It does not
// rely on what a build says: [Run] reads rows and entries at T and returns the keys of an
// index that the rows do not give, or give more than once. The caller repairs them, with
// the entries of single rows from an encode.RowEncoder.
//
// [Since] reads less where the store can tell what has changed. In a kv.ChangeFinder it
// first compares what has changed since a build has verified the indexes. In a
// kv.UnchangedCounter it does not read rows again that were not written since they were
// built. In a kv.Checksummer the store sums up its entries itself.
//
// Several nodes compare one table in subtasks: [RunSubtask] sums up one of them.
// [Shadowed] finds entries that a snapshot does not see although they are there,
// [FindBadRows] the rows that give an index no entry, and [SpotCheck] looks up the entries of
// some rows.
//
// # Invariants
//
//   - Sums are compared first, in buckets of keys with equal hashes; only buckets that differ
//     are compared key by key. So memory does not depend on the number of rows.
//   - Every record at T is counted by its key, and as many rows must have been scanned:
//     rows that a scan loses are missed, though the index lacks them too.
//   - Where it cannot be sure from the changes, or the store cannot tell, everything is read.
//   - Entries of the spot check are made by TiDB's package tables of rows as they are stored,
//     not by our scan or encoders.
package compare
