// Package ddl builds indexes as durable jobs over TiDB's metadata, while the
// tables stay in use: it queues a statement's indexes as one job, takes it
// through TiDB's schema states, and has package backfill make the entries. What else
// a statement changes of its table goes through its states in the same schema
// versions, and is visible with the indexes or not at all: see change.go.
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
// TiDB runs all other DDL itself. A row of ours in mysql.tidb_ddl_job, in state
// paused and of a type that TiDB does not know, keeps that away from the table:
// see tidbjob.go.
//
// # Several nodes
//
// Nodes that build indexes in one store divide the jobs: the record of each names its owner,
// a member of the cluster (package member), and an epoch that counts the owners. The node
// that a statement came to begins with it. When that is no member any more, the first that
// notices takes the job over, in a transaction that writes its own name and the next epoch
// if both are still what it has read. Requests find the owner through a table, and a
// session whose job goes on elsewhere waits for the history.
//
// They also divide the rows of one build (package crew). The owner writes its parts to a table
// (crew.go, parts.go), each member claims open ones and builds them (hand.go, handview.go),
// and the owner adds up what they have come to. Parts belong to the job and S, not to the
// owner: whoever builds one goes on when the job changes hands.
//
// # Invariants
//
//   - Whatever is written for a job is written in a transaction that finds its owner and
//     epoch unchanged, and an import is sent only while the node is a member by the clock
//     (I8). A node that is none any more lets its jobs go where they are, without touching
//     anything that others can see. Who takes a job over that may have imported has the
//     store refuse imports from before first.
//   - Whatever is written for a part of a build is written in a transaction that finds its
//     holder and epoch unchanged. A job does nothing that parts depend on, such as undoing
//     what they import or taking another S, before nobody holds one: members have given
//     theirs back, and for others the store refuses what was sent before.
//   - A job is run, and its parts are built, by versions that know all that its record may
//     say (job.Protocol). Others leave it alone.
//   - A job that has been queued ends: done, or cancelled, or rolled back. A crash
//     only delays it; it goes on from its last durable step and checkpoint.
//   - Each step's schema, the job's record and its row in TiDB's queue are written
//     in one transaction, which fails if any of them was changed by somebody else.
//   - One goroutine owns the state of a job; others send it messages. It contains
//     its panics: the job is undone with the panic as its error.
//   - What a statement adds, changes and drops beside its indexes is done in the schema
//     version of their publication, or undone with them. It has been tried on a copy
//     of the table before the build began.
//   - The snapshot S is used only while garbage collection is held at it; the hold
//     is older than the record of S, is renewed whatever the job waits for, and is
//     released after the last import (I4).
//   - A unique index becomes public only after a clean comparison with the rows at
//     a timestamp after the drain (I6).
//   - A job that was cancelled, or failed, leaves nothing: no entry that can be
//     read, no file, no hold, no row (I7). Its entries are given to TiDB's garbage
//     collection.
package ddl
