// Package survey looks at a table before an index of it is built: how many rows it has, what a scan would read, and how
// large the entries of new indexes would become, from a sample of rows that the build's own encoder encodes and the store's
// own writer compresses. It reads within bounds of rows, bytes and time, so that the size of the table does not matter, and
// changes nothing.
//
//	the store's ranges, with their sizes -> places, evenly by bytes -> rows of each -> entries -> sizes by density
//	                                     -> ranges counted, in random order, as long as there is time -> rows
//
// # Invariants
//
//   - A table that is read whole has exact numbers, and says so (Survey.Exact, Survey.Complete).
//   - No row is in the sample twice: a place ends where the next begins.
//   - Keys and values of rows leave the package only in Index.Duplicates, and in errors of rows: callers show them to accounts that may SELECT.
package survey
