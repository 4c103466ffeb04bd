// Package model runs random transactions beside random schema changes in one
// process and compares everything that can be read afterwards with a model.
//
// The model is the list of acknowledged commits: applied in the order of their
// timestamps up to t they give the rows that a snapshot at t must hold, and the
// rows give the entries that every index published before t must hold. A run is
// named by its seed, which is printed; what a seed does not fix is how the
// goroutines interleave.
package model
