// Package explain compares what EXPLAIN says of an index build with what the build takes: rows, bytes in the store, in memory
// and in the temp folder, and seconds, for builds of different types, widths and kinds. Each is one EXPLAIN ANALYZE, which
// estimates and then builds. Times are learned from the builds before, so a first round is not counted.
package explain
