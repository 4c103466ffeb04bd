// Package check compares indexes with rows (ADMIN CHECK TABLE, ADMIN CHECK
// INDEX) and computes TiDB's table checksum (ADMIN CHECKSUM TABLE), at one
// snapshot and in parallel.
//
// It shares nothing with the path that wrote the data: rows are decoded and
// their expected entries encoded by TiDB's library functions, not by the
// encoders of package table's DML or of the backfill.
//
// # How
//
// A first pass sums up the entries that the rows give and the entries that the
// index holds: both are spread over buckets by a hash of the key, each with a
// count and a sum of hashes of key and value. The sums do not depend on order,
// so rows and entries are read in key order, range by range, in parallel, and
// memory is bounded by the number of buckets. Equal sums mean equal sets, up to
// a collision of 64-bit hashes.
//
// Only if a bucket differs a second pass looks at its members one by one: each
// row's entry is looked up in the index, then each entry's row in the table, and
// the first one that is wrong, by key, is named.
package check
