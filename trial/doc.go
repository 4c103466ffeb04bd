// Package trial runs the server of a benchmark or a demonstration, on a free port of this
// machine: over a new embedded store, or as one more node of a TiKV cluster that is in use.
//
// What is tried is the same on both. On a cluster it leaves nothing behind: it works in a
// database of its own, which must not exist before, and when it ends it drops that and
// sets the global variables back that it has changed. If it cannot, the error says what
// is left. A process that is killed leaves both; a later one refuses the database.
package trial
