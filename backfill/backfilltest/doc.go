// Package backfilltest is the test kit of package backfill and of those below it: random
// tables and rows, a table in a store of its own with what TiDB's own code writes for its
// rows, and stores that fail or lose something.
//
// # Invariants
//
//   - The entries that it expects are TiDB's: it does not use package encode.
package backfilltest
