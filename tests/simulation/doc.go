// Package simulation searches the index build protocol for an interleaving that breaks
// what docs/correctness.md promises.
//
// The job's state machine is the product's own, package ddl/job. What surrounds it is a
// model in memory, small enough for thousands of histories a second: an MVCC store with
// tombstones, lock records, garbage collection, holds and delete ranges; TiDB's
// transactions and DML on indexes that are not public; servers that load schema versions
// and report for the metadata lock; TiDB's own DDL owner; builders that follow package
// ddl and die at any place.
//
// A history is a list of events, each a kind and a number from which the event takes all
// its choices. A seed gives the list, so it repeats the very interleaving. An event that
// is not possible when its turn comes does nothing, so any part of a list is a history
// too: that is how a failing one is made short before it is printed.
//
// # What is checked
//
//   - The promise: at every readable snapshot since an index was published it holds what
//     the rows of that snapshot give; a job that has failed or was cancelled leaves
//     nothing; a job fails only for a reason that was there. A 1062 needs two rows that
//     had the value at one snapshot.
//   - Each invariant by itself, as it is stated, where something of it can be seen before
//     the promise is broken. A finding names the invariant.
//
// Every mutation of the list breaks the protocol in one place, in the model or in a machine
// wrapped around the product's, and has to be found.
//
// FASTDDL_TIME says how long the search goes on, FASTDDL_SEED repeats one history
// and prints it.
package simulation
