// Package ingest sorts the entries of an index build and hands them to
// lightning, within a budget of memory, disk and write speed that all running
// jobs share. How much of its share a job uses beside foreground statements is
// decided by package flow.
//
// A [Job] builds the entries of one or more indexes at one version. Each
// backfill worker appends entries, in any order, to a [Worker] of its own:
//
//	Append -> partition of the key space -> (over budget) sorted run file
//	                   |                              /
//	         Flush:   sort, and merge with the runs, several partitions at a time -> lightning -> store
//
// The partitions are of about equal size, by keys that were sampled, and small
// enough to be sorted in the processor's caches. Since they follow each other in
// key order, what several workers have in memory needs no merge.
//
// Small builds never leave memory but for the final files. When the disk share
// of the job is used up, [Worker.EndBatch] says so, the caller brings its
// workers to a stop, flushes what is there, and goes on.
//
// # Invariants
//
//   - An entry that was appended is in exactly one place: a partition of
//     its worker or of the job, or a run; Flush moves all of them into the store or fails, and a failed job
//     is started again from its last checkpoint.
//   - Totals (count and checksum) are taken when an entry is appended, before
//     anything is sorted, written or merged, so that comparing them with what
//     the store gives back covers all of it. They are taken again when an entry is
//     handed to lightning: a flush fails, before the last import, unless both agree.
//   - Temp bytes are acquired from [Resources] before they are written, the runs
//     and the final files each from a part of the quota of their own, or of the room
//     that the disk has if that is less; so a flush can always proceed, however full
//     the other part is.
//   - The temp folder holds one folder per job, which Open empties and Close
//     removes.
//
// An index key begins with t{tableID}_i{indexID}, which is the same for all its
// entries; everything in this package deals in the rest of the key, and Flush
// puts the prefix back.
package ingest
