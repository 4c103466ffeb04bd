// Package ddl builds indexes as durable jobs over TiDB's metadata, while the
// tables stay in use: it queues a statement's indexes as one job, takes it
// through TiDB's schema states, and has package backfill make the entries. What else
// a statement changes of its table goes through its states in the same schema
// versions, and is visible with the indexes or not at all: see package schema.
//
// What a job does next is decided by pure code, package job. This package is the
// adapter around it: metadata transactions, the wait for all servers, the hold on
// garbage collection, comparison and repair of unique indexes, control.
//
//	Build (a session waits) -> queue -> one goroutine per job <- requests
//	                                      |  schema versions, TiDB's metadata lock
//	                                      |  S, GC hold, backfill, comparison
//	                                      v
//	                        history, TiDB's delete ranges
//
// # Packages
//
// Below this package, each for one subject, with dependencies one way:
//
//   - session: statements and transactions over TiDB's system tables and metadata.
//   - records: the jobs' own tables, with the requests of other nodes.
//   - schema: what is written to TiDB's metadata, the row in TiDB's queue among it.
//   - status: what is shown of jobs, and what they wait for.
//   - member, dist: which nodes live; how nodes divide a build.
//   - verdict: the errors of rows that do not let an index be built.
//   - job: the state machine, pure.
//
// Here are the jobs: a goroutine each (loop.go) that has the machine decide and performs its actions (actions.go), what a
// session asks for and waits for (build.go, control.go), the waits of a step (waits.go), owners and holds (owner.go, hold.go,
// fence.go), comparison (compare.go) and repair (repair.go), when a job works and is published (schedule.go).
//
// # Several nodes
//
// Nodes that build indexes in one store divide the jobs: the record of each names its owner,
// a member of the cluster (package member), and an epoch that counts the owners. The node
// that executes the statement begins with it. When that is no member any more, the first that
// notices takes the job over, in a transaction that writes its own name and the next epoch
// if both are still what it has read. Requests find the owner through a table, and a
// session whose job goes on elsewhere waits for the history. They also divide the rows of one
// build (package dist).
//
// # Invariants
//
//   - All that is written for a job is written in a transaction that finds its owner and
//     epoch unchanged, and an import is sent only while the node is a member by the clock
//     (I8). A node that is none any more lets its jobs go where they are, without touching
//     anything that others can see. A node that takes over a job that may have imported has the
//     store refuse imports from before first.
//   - A job does nothing that its subtasks depend on, such as undoing
//     what they import or taking another S, before no node holds one: members have given
//     theirs back, and for others the store refuses what was sent before.
//   - A job is run, and its subtasks are built, by versions that know all that its record may
//     say (job.Protocol). Others leave it alone.
//   - A job that has been queued ends: done, or cancelled, or rolled back. A crash
//     only delays it; it goes on from its last durable step and checkpoint.
//   - Each step's schema, the job's record and its row in TiDB's queue are written
//     in one transaction, which fails if another process has changed any of them.
//   - One goroutine owns the state of a job; others send it messages. It contains
//     its panics: the job is undone with the panic as its error.
//   - The snapshot S is used only while garbage collection is held at it; the hold
//     is older than the record of S, is renewed in all waits of the job, and is
//     released after the last import (I4).
//   - A job that is parked, outside its window or paused, holds garbage collection for a bounded time,
//     and not at all while its indexes wait for their publication.
//   - A unique index becomes public only after a clean comparison with the rows at
//     a timestamp after the drain (I6).
//   - A job that was cancelled, or failed, leaves nothing: no entry that can be
//     read, no file, no hold, no row (I7). Its entries are given to TiDB's garbage
//     collection.
package ddl
