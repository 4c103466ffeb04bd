// Package model runs random transactions beside random schema changes in one
// process and compares everything that can be read afterwards with a model.
//
// The model is the list of acknowledged commits: applied in the order of their
// timestamps up to t they give the rows that a snapshot at t must hold, and the
// rows give the entries that every index published before t must hold. An ALTER
// has to do all or nothing, a refusal (1062) needs a reason that the list shows,
// and when everything is over nothing is left of what was dropped, undone or
// interrupted.
//
// Beside the transactions and the ALTERs, jobs are paused, resumed and cancelled,
// variables change, statements lose their clients, the store fails, files get
// lost, and the component that runs the jobs dies and is replaced, sometimes
// before it has noticed.
//
// A run is named by its seed, which is printed; what a seed does not fix is how
// the goroutines interleave.
package model
