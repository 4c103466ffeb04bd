// Package backfill builds indexes of a table from its rows at a timestamp S.
//
// [Run] builds. Workers scan ranges of the table at S, reading only the columns
// the new indexes need, compute virtual columns by TiDB's own expression library,
// and encode the entries of all indexes of the job straight from the columns;
// package ingest sorts them and imports them into the store at version S. What
// concurrent transactions write to the indexes has a newer version and shadows what
// is imported, so there is nothing to merge or to catch up with afterwards, and
// building a range again changes nothing.
//
//	plan -> queue of ranges -> workers: scan, encode -> ingest: sort, merge, import
//	                              ^                              |
//	                              +------- checkpoint <----------+   verify
//
// Several nodes build one table in subtasks: [RunSubtasks] builds those that one node has,
// which it asks for one after the other, as one build with one import.
//
// A partitioned table is built a few partitions at a time, so that memory does not
// depend on their number.
//
// The packages below it: encode makes the entries of rows, keyrange cuts ranges of keys,
// execution has what builds and comparisons have in common, compare compares rows with
// indexes at a timestamp T.
//
// # Invariants
//
//   - The caller holds the versions at S from garbage collection, and no
//     transaction can still commit at or below S without maintaining the indexes:
//     then the entries at S are a function of the rows at S.
//   - A range is in a checkpoint as done only when the entries of all its rows
//     are durable in the store. A build that starts from a checkpoint therefore
//     ends with the same entries as one that was never interrupted.
//   - What was read back by the verification is in a checkpoint too: the entries
//     at S do not change, and their totals add up in any order. So a crash costs
//     at most the scan of one checkpoint interval and its import, or a few seconds
//     of the verification.
//   - The ranges that were scanned and those that a checkpoint says are left tile what
//     was left when the run began. What was written to files has count and checksum of
//     the entries that were encoded.
//   - Before Run returns success, count and checksum of each index's entries at S
//     as read back through the store equal those of the entries encoded from the
//     rows, and the number of rows that were scanned is that of the record keys at
//     S, which are counted by a reading of their own. If Spec.Verify is auto, and the store
//     counts what its scans visit, intervals of the entries are read back, and the rows
//     are not counted a second time. A comparison counts those at its
//     timestamp: a build that is Compared leaves that to it, unless the store can tell
//     what has changed since. A store that is a kv.Checksummer reads and sums up itself,
//     with its own function; if such a build is Compared, the sums are left to the comparison,
//     too, and asked for only if that finds a difference (Spec.Differed). Then the entries of some
//     rows are looked up (compare.SpotCheck): a scan or an encoder that does the same wrong to
//     many rows is not seen by sums.
//   - When Run returns, with or without an error, no file of it is left.
package backfill
