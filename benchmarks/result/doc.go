// Package result has the results of the benchmarks, in the form of their files:
// figures of single runs, from which reports compute medians.
package result
