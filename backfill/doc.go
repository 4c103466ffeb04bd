// Package backfill builds indexes of a table from its rows at a timestamp S.
//
// [Run] is the fast way. Workers scan ranges of the table at S, reading only
// the columns the new indexes need, and encode the entries of all indexes of
// the job straight from the columns; package ingest sorts them and imports them
// into the store at version S. Whatever concurrent transactions write to the
// indexes has a newer version and shadows what is imported, so there is nothing
// to merge or to catch up with afterwards, and doing a part again changes
// nothing. [RunTransactional] is the slow way that TiDB took before, batches of
// ordinary transactions, kept to measure against.
//
//	plan -> queue of ranges -> workers: scan, encode -> ingest: sort, merge, import
//	                              ^                              |
//	                              +------- checkpoint <----------+   verify
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
//   - Before Run returns success, count and checksum of each index's entries at S
//     as read back through the store equal those of the entries encoded from the
//     rows.
//   - When Run returns, with or without an error, no file of it is left.
//   - Encoding equals that of package tablecodec, byte for byte; a randomised test
//     compares them over all column types.
package backfill
