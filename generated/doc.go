// Package generated computes the values of generated columns: those that a
// table declares, and the hidden ones that the key parts of expression indexes
// are (as in TiDB, lower(c) in an index is an index on a hidden virtual column).
//
// What an expression means is the SQL engine's business. It comes in as a
// [Compiler]; everything that needs a value, be it DML, a backfill, a read or
// ADMIN CHECK, gets it from here, so that there is one truth.
//
// # Invariants
//
//   - A value depends on the row alone: not on the session, not on the clock.
//   - A virtual column's value is never stored in a row, a stored column's always.
//   - The value of a STORED column is computed when the row is written, and read
//     from the row ever after.
package generated
