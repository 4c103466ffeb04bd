// Package records keeps the jobs' own tables in schema mysql: the records of index builds, their settings and
// checkpoints, their history, and the requests of other nodes to them. It reads and writes rows; what they mean for
// a job is package job's and package ddl's.
//
// # Invariants
//
//   - A record is written over the one with the revision before, of the same owner and epoch, or not at all (I8).
//   - A record that cannot be decoded is not an error of reading: it is a job that is set aside (Unreadable), so that
//     other jobs go on. The record of a later version is kept as it is.
//   - A request is answered once, in the transaction that grants it, or taken back. One that asks for what this
//     version does not know is not granted in part.
package records
