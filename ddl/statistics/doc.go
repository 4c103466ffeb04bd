// Package statistics writes the statistics of new indexes to TiDB's tables, as its ANALYZE (version 2) does, and has
// this node read them.
//
// # Invariants
//
//   - Only what belongs to the index is written: modify_count stays, and count unless TiDB knows of no rows at all.
//   - A table that was never analyzed still counts as such, so that TiDB analyzes it by itself: the version of the
//     index's statistics is 0 then, of which TiDB concludes that it has analyzed nothing
//     (indexStatsFromStorage in pkg/statistics/handle/storage/read.go).
//   - Where a table has statistics of version 1, or tidb_analyze_version is 1, nothing is written.
package statistics
