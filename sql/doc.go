// Package sql opens TiDB's SQL layer, unmodified, on a store of ours, and puts our
// index builds into it:
//
//   - TiDB's DDL executor is wrapped, and statements that add indexes are given to
//     package ddl (executor.go), with their other changes (alterparts.go), checked by
//     TiDB's own code (collect.go); what we cannot build goes to TiDB, with a note.
//   - The sessions of clients are wrapped, so that ADMIN statements reach our jobs
//     (admin.go) and running statements are measured for the flow.
//   - Our system variables are registered as TiDB's own are, and those of TiDB that
//     a build follows are copied into config.Globals when they change (sysvars.go).
//
// # Invariants
//
//   - Every statement that a client runs goes through TiDB's own checks, of
//     privileges too. ADMIN statements about our jobs ask TiDB for the same ones.
//   - A statement is built by us or by TiDB, never half by each.
//   - TiDB's metadata lock sees the sessions of this process: those of its server,
//     or, in a test without one, those of package sqltest.
package sql
