// Package job is the core of online schema change without its surroundings:
// what a DDL job is, what each of its steps makes of a table's definition, in
// which order the steps come, what happens on errors and on requests, and which
// jobs may run side by side.
//
// It is pure code. Nothing in it does I/O, reads a clock or starts a goroutine;
// package ddl executes what it decides.
//
// # Steps
//
// A job that adds indexes or columns takes them through the schema states until
// they are ready, and then switches: one schema version makes everything that
// was added public, everything that is dropped invisible, and applies renames
// and options. Before the switch the job can be undone; after it, it can only
// go on.
//
//	start -> delete-only -> write-only -> write-reorg -> snapshot -> backfilled -> switched
//	  |          |              |             |             |            |            |
//	  |          +--------------+------+------+-------------+------------+            v
//	  v                                v                                       drop-delete-only
//	finished <------ undone <- undo-delete-only                                       v
//	   ^                                                                           dropped
//	   +---------------------------------------------------------------------------- +
//
// Jobs skip the steps they have no use for: new columns need write-only alone,
// options need only the switch.
//
// A job that adds unique indexes has two steps more between backfilled and
// switched. From "complete" on transactions look keys up in the whole index and
// leave no markers (see package table); when all others have ended, the markers
// that there are are looked at, which leads to "unique".
//
// # Invariants
//
//   - I1: each step that changes the schema is preceded by waiting until nobody
//     can write under the version before the current one.
//   - I2: the snapshot is taken after that wait in write-reorg.
//   - Steps are durable: a job that is loaded again goes on from the step it had
//     reached, and the action towards the next step may be done again.
//   - Several changes of one ALTER become visible in one schema version.
package job
