// Package schema writes what index builds change in TiDB's metadata: the schema states of indexes, and of what else
// a statement changes; schema versions and the wait until all servers have them; the row in TiDB's queue and its history;
// the events for statistics and the ranges for garbage collection.
//
// TiDB runs all other DDL itself. A row of ours in mysql.tidb_ddl_job, in state paused and of a type that TiDB does not
// know, keeps that away from the table: see tidbjob.go. What a statement changes beside its indexes is in change.go.
//
// # Invariants
//
//   - Everything of one step is written in the transaction of the caller, which fails if the table, the record or the
//     row in the queue was changed meanwhile.
//   - A schema version is not taken while the diff of the one before is missing and may still come.
//   - What a statement adds, changes and drops beside its indexes is done in the schema version of their publication, or
//     undone with them. It has been tried on a copy of the table before the build begins.
//   - Until an index is public its name is marked, so that no transaction reads through it (BuildingMark).
//   - No index gets the ID of one whose entries garbage collection is still to delete, or that is still to be undone.
package schema
