// Package result is what the benchmarks measure, as it is kept in files: plain
// figures of single runs, of which reports make medians.
package result
