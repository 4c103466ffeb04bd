// Package ddl runs DDL statements as durable jobs: it makes a job of a
// statement, queues it in the store, and takes it through its steps, one job at
// a time per table, while the tables stay in use.
//
// What a job does is decided by pure code: package builder makes definitions of
// syntax trees, package job has the steps and the order of things. This package
// is the adapter around them. It reads and writes metadata through the catalog,
// waits for writers through mdl, holds garbage collection, calls the backfill,
// and tells the world by events.
//
//	Execute -> plan -> queue (store) -> scheduler -> worker per running job
//	                                                   |  metadata transactions
//	                                                   |  metadata lock
//	                                                   |  S, GC hold, backfill
//	                                                   v
//	                                  history (store), delete ranges -> cleaner
//
// # Invariants
//
//   - A statement is one job, and a job that has been queued ends: done, or
//     cancelled, or rolled back. A crash at any point only delays it; it goes on
//     from its last durable step and checkpoint.
//   - Each step's schema and the job's record are written in one metadata
//     transaction, so neither is ever ahead of the other.
//   - The snapshot S is used only while garbage collection is held at it; the hold
//     is older than the record of S and is released after the last use of S.
//   - A job that was cancelled, or failed, leaves nothing of what it began: no
//     entry, no file, no hold (I7). It has ended only when that is so.
//   - Data that was dropped is deleted when no snapshot can read it any more:
//     after everybody who writes it has gone, and when the GC safe point has
//     passed. What is to be deleted is durable.
package ddl
