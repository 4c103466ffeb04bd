// Package indexstats makes the statistics of an index, as TiDB's ANALYZE (version 2) does, from the distribution of its
// values, and keeps what is known of them while the index is built in several steps.
//
// [Build] repeats BuildHistAndTopN (pkg/statistics/builder.go) for a sample that has every row, and [BuildFromEntries] what
// ANALYZE does with the entries of a multi-valued index. Both work on the values instead of the rows, so that they take
// milliseconds. [State] is part of a build's checkpoint.
//
// # Invariants
//
//   - Of a distribution.Summary that is Whole, Build returns what TiDB builds from the rows; the number of values is exact
//     where TiDB estimates it (more than 10,000).
//   - A State that lost entries says so, and has no statistics: they would be wrong.
package indexstats
