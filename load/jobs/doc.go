// Package jobs runs IMPORT INTO as durable jobs on the embedded store: it closes the table to writers, has a Loader write the rows under IDs
// that no reader knows, and replaces the table by the one with these IDs in one schema version. Readers see none of the rows, or all.
//
//	queued -> draining -> loading -> swapped -> ended
//	   \________\___________\-> undoing -> ended
//
// Each step is a transaction over the import's record (mysql.fastddl_import_job), its row in TiDB's queue, which keeps other DDL off the
// table and its database, and TiDB's metadata. After a crash an import from files goes on at its step, with its last checkpoint; one
// from a query is undone. Imports from files are in TiDB's mysql.tidb_import_jobs, too.
//
// # Invariants
//
//   - From before the schema version that is waited for until the swap has reached all servers, no statement adds rows to the table: those
//     that began before are waited for, later ones are refused (Exclusion).
//   - The table is empty behind that wait, and looked at again before the swap.
//   - The IDs that rows go under are in the record before a row is written, and are given out to this import only.
//   - The swap and the record that says so are one transaction. A cancellation writes the record as well, so that one of the two happens.
//   - The table is replaced only if its definition is the one that the rows were encoded for.
//   - What ends without the swap gives the range of the new IDs to garbage collection, when nothing writes there any more; what ends with
//     it gives that of the old ones.
package jobs
