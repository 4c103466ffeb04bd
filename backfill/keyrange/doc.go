// Package keyrange plans, cuts and joins ranges of keys. Builds and comparisons read a
// table in such ranges, side by side, and divide them among nodes.
//
// A [Weighted] range has a weight, by which work is divided evenly: its estimated bytes, where
// the store knows them. Keys are cut as if they were numbers, which integer handles are.
// [StoredWeighted] and [StoredIndexed] are the forms in which ranges are kept with a job.
//
// # Invariants
//
//   - What a range is cut into adjoins, in key order, and covers the range: no row and no
//     entry is left out, also where the store's ranges are wrong.
//   - Joined ranges cover what they were joined from, and nothing else.
//   - The package reads keys and asks for a store's ranges. It has no clock, no randomness
//     and no goroutines.
package keyrange
