// Package sql is the adapter between go-mysql-server (GMS) and fastddl: GMS
// parses, plans and executes statements and speaks MySQL's protocol; this
// package gives it databases, tables, indexes, sessions and transactions over
// packages catalog and table.
//
// # How a statement runs
//
// Naming a table makes the session's transaction pin, once, a schema version and
// a snapshot of the data that fit together: no version is published between the
// two. Plan and reads use the pinned pair; so an index is read only by
// transactions that began after it was published, and is complete for them.
//
// The first write to a table takes the metadata lock, which binds the
// transaction to the table's current version: writes maintain what that version
// tells them to. If its rows look different from those the statement was planned
// for, the statement is run again when nothing but itself depends on the
// snapshot, and fails with 8028 otherwise.
//
// Conflicts show at commit. A statement in autocommit mode is then run again
// from its text, in a new transaction, by the connection [Handler]; a client's
// own transaction gets error 1213, which clients answer by starting over.
//
// # Invariants
//
//   - A snapshot and the schema it is read with belong together (I5).
//   - A statement writes all of its rows or none, also when it is killed.
//   - A statement does not meet rows it has itself written while it scans.
//   - Index entries are removed for the values that are stored, not for those
//     that GMS thinks are.
//   - However a command or a connection ends, no iterator, transaction or
//     metadata lock is left behind.
//   - GMS never builds or drops anything in the schema: those statements are
//     taken over by package stmt, and the tables have none of GMS's interfaces
//     for them.
package sql
