// Package load loads the rows of files, with the entries of all indexes, into the store.
//
// [Run] is a build whose source is files. Workers read chunks of them by package load/rows, which encodes each row: its
// record and its index entries, under IDs of the table that no statement knows. Package ingest sorts them and imports them at
// one version, under the same budgets, quota, governor and write limits as index builds.
//
//	chunks -> workers: read, parse, encode -> ingest: sort, merge, import
//	   ^                                                |
//	   +----------------- checkpoint <------------------+   verify
//
// Records and each index are a key space of their own. A space of a partitioned table has the keys of all partitions, so that
// memory depends neither on their number nor on that of the rows.
//
// # Invariants
//
//   - The caller has taken the IDs for this load, and no other writes keys of the IDs.
//   - A row is among the chunks of a checkpoint until it is durable in the store. Before an import the checkpoint says that one has
//     begun; if the process ends before the next one, the store has an unknown part of the rows, which may get other generated
//     keys when they are read again: all keys of the IDs are deleted, and the load begins anew.
//   - All rows and entries of a load have one version, so that a transaction of any age reads all or none. Garbage collection is held
//     at it until the load ends; if it has passed it after a crash, all keys of the IDs are deleted, and the load begins anew.
//   - Each row is appended once. So two equal keys, also of equal values, are a duplicate, and fail the load with both places.
//   - What was encoded has count and checksum of what was written to files, and the store has taken in as many pairs as those have.
//     Before Run returns success, what was read back, all or a sample, has count and checksum of what was written, and there is an
//     entry of each index for each row.
//   - When Run returns, with or without an error, no file of it is left in the temp folder.
package load
