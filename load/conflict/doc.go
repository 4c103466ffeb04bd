// Package conflict decides which of several rows with an equal key stay, as LOAD DATA does with IGNORE or REPLACE. It keeps the
// encoded rows in a temporary file meanwhile, because the last row may be in conflict with the first.
//
// [Spool.Add] takes the rows in the order of the file, [Spool.Decide] compares them, and [Spool.Next] returns those that stay.
// Hashes of all keys, sorted in parts that fit into memory, show which keys more than one row has. Only the rows with such a key
// are compared, one after the other, by the keys themselves.
//
// # Invariants
//
//   - No two rows that Next returns have a unique key in common.
//   - A row is returned with all of its pairs or with none.
//   - A row with an equal hash of another key stays.
//   - What is read back is what was written: each row has a checksum.
//   - The files have no name, so that none is left when the process ends.
//   - Memory depends on the number of rows in conflict, up to a limit, and on that of all rows by one bit each.
package conflict
