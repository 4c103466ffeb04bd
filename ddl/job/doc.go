// Package job is the core of an index build without its surroundings: what a
// job is, in which order its steps come, what happens on errors and on requests,
// which jobs may run side by side, and how far one has come.
//
// It is pure code. Nothing in it does I/O, reads a clock or starts a goroutine;
// package ddl executes what it decides.
//
// # Steps
//
// All indexes of one statement move together and become public in one schema
// version.
//
//	queued -> delete-only -> write-only -> write-reorg -> snapshot -> backfilled -> [drained -> compared] -> public
//	  |            |             |              |             |           |             |          |          |
//	  |            |             +--------------+-------+-----+-----------+-------------+----------+          |
//	  |            v                                    v                                                     |
//	  |         undone <------------------------ undo-delete-only                                             |
//	  |            |                                                                                          |
//	  +------------+--------> finished <----------------------------------------------------------------------+
//
// A statement that drops something too goes on after the publication:
//
//	public -> drop-delete-only -> drop-delete-reorg -> dropped -> finished
//
// Indexes that may not become public yet wait at "ready", after "backfilled" or "compared":
//
//	backfilled | compared -> ready -> [compared ->] public
//
// The steps in brackets are those of unique indexes, mostly. At "snapshot" S is taken and
// garbage collection held at it. DML treats write-reorg as it does write-only: that
// all servers have reached it, or "drained", which changes nothing, proves that the
// transactions which were open before have ended. Every version makes all sessions plan
// their statements again, so there are as few as can be. A job that has to take another S
// goes back to "write-reorg". One whose comparison has found a difference, and whose entries were
// not summed up at S yet, goes back to "snapshot" once.
//
// # Invariants
//
//   - I1: a step that changes the schema is preceded by waiting until all servers,
//     and all transactions that use the table, have the version before. Undoing
//     needs no wait where the states that meet are next to each other.
//   - I2: S is taken after that wait in write-reorg: then no transaction is left that was
//     open beside one of delete-only.
//   - Steps are durable: a job that is loaded again goes on from the step it had
//     reached, and the action towards the next step may be done again. What it
//     waited for is not known then, so it waits for a new version that changes
//     nothing.
//   - Outside its window a job begins nothing but waits, until its indexes are public. It is undone at any time.
//   - Indexes that may not become public do not, and those that have waited are compared again if others are.
//   - A job can be undone until its indexes are public, and not from then on.
package job
