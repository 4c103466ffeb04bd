// Package perftables adds tables of index builds to performance_schema: fastddl_ddl_jobs, fastddl_ddl_points, fastddl_ddl_blockers,
// fastddl_ddl_errors and fastddl_ddl_commands; and fastddl_server_load, what the server did in the last minutes. They have the rows of the tables of the same names in schema mysql, which are for administrators; every account
// may SELECT from them, and the rows are filtered by its privileges.
//
// # Why performance_schema
//
// TiDB's cache of schemas (infoschemaV2) keeps virtual tables of three schemas only, which it knows by name (IsSpecialDB in
// pkg/infoschema/infoschema_v2.go): tables of any other schema are evicted, and looked for in the store. What TiDB does with virtual
// schemas goes by these names as well: no account writes them, statistics, dumps and backups leave them out, and no database of a user
// has their names.
//
// # Invariants
//
//   - A row is shown to accounts that have a privilege on the job's table, by the names in the row: TiDB's rule for
//     information_schema.ddl_jobs. What is not sure is not shown.
//   - Values of rows are shown to accounts that may SELECT from the table, the statement and database of a session that a job waits for
//     to its own account and to those with PROCESS.
//   - The filter is applied while rows are read, by the privileges and roles of the session that reads them, never while a statement is
//     planned.
//   - The load of the server is shown to accounts with PROCESS.
//   - TiDB's own tables of performance_schema are TiDB's.
package perftables
