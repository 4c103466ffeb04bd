// Package builder turns the syntax trees of DDL statements into table, column
// and index definitions in TiDB's model, and refuses what MySQL or TiDB would
// refuse, with their error numbers and texts.
//
// It is pure: no catalog, no store, no clock. What a definition depends on
// besides the statement comes in an [Env].
//
// # Invariant
//
//   - A definition made here is what TiDB stores for the same statement, so that
//     a TiDB server reading the store finds nothing it would not have written:
//     handle kind, column IDs and offsets, index IDs, key flags, lengths,
//     charsets and collations of each column, defaults in their stored form.
package builder
