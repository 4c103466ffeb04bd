// Package crash runs random statements beside random schema changes against the
// built server, kills its process at random moments, and starts it again on the
// same folder.
//
// Each worker owns a set of ids, so it knows exactly what its rows must be: those
// of its last acknowledged commit, or, of the one commit that was in flight when
// the process died, all or nothing. Values of unique columns are shared, so that
// workers get in each other's way; a 1062 must name a value that two rows had.
// Beside them tellers move money between a few accounts, so that transactions wait
// for each other and deadlock: money neither comes nor goes, at any look. Most
// indexes are built by fastddl, some by TiDB.
//
// After each restart the rows must be those, every index must give the same rows
// as the table, an ALTER must have done all or nothing, and when the jobs are
// over nothing of them may be left. At the end the store is opened and searched
// for keys of indexes that do not exist.
//
// A run is named by its seed, which is printed; what a seed does not fix is how
// the statements interleave and where exactly the process dies.
package crash
