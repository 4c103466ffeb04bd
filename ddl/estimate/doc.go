// Package estimate says what an index build will cost before it begins: rows, bytes in the store, in memory and in the temp
// folder, seconds as a range, and whether it fits. It is pure code: a survey of the table, the limits, the load and the
// times of builds that have ended go in ([Input]), an [Estimate] comes out.
//
// # Invariants
//
//   - What is not known is not assumed to fit: it is [Unknown], and says what is missing.
//   - A verdict names each resource that lacks room, with what is needed and what is free.
//   - An estimate holds no values of rows.
package estimate
