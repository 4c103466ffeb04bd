// Package lightning is the local backend of index builds: it turns sorted
// streams of key-value pairs into files at a given MVCC version and imports
// them into the store.
//
// An [Importer] serves one build. Any number of goroutines each open a
// [Writer] on a key range that no other one writes, and add pairs in ascending
// order; the writer cuts files at the target size and hands each finished one
// to the importer, which imports them in batches.
//
// # Invariants
//
//   - Files handed to one Store.Import call do not overlap, because writers
//     own disjoint ranges and a writer's keys increase.
//   - Every byte of a file is acquired from the quota before it is written, and
//     released after the store has taken the file or it was removed. A writer
//     that waits for quota holds no unfinished file, and finished ones are
//     imported first, so that waiting always ends.
//   - A file is imported only if it has as many pairs as were added to its writer.
//   - After [Importer.Close] no file of the importer is left on disk. What was
//     imported stays: importing the same pairs again at the same version
//     changes nothing, so that a failed build is simply started again.
package lightning
