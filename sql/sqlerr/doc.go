// Package sqlerr gives every error that can reach a client its MySQL number,
// SQLSTATE and text.
//
// Errors come from three sides: from our own layers (typed errors of kv, config
// and ddl), from TiDB's libraries (terror errors, which carry TiDB's number) and
// from go-mysql-server, which numbers only some of its errors, gives nearly all
// of them SQLSTATE HY000 and words them in its own way. [Translate] knows all
// three and returns a vitess SQLError, which go-mysql-server hands to the client
// unchanged.
//
// # Where it hooks in
//
// Over the wire go-mysql-server flattens an error to its text before anything
// of ours sees it, so the server installs [ServerOption], which wraps the
// connection handler and rebuilds the error from the text. In process, and
// wherever our own code hands an error to go-mysql-server (a failing commit, a
// table iterator), the caller calls [Translate] itself while the error still has
// its type.
//
// # Invariants
//
//   - Translate is idempotent: an error that already is a SQLError with a number
//     of its own comes back with the same number and text.
//   - No error leaves without a number: what is not recognised is 1105, HY000,
//     with its own text.
//   - A recognised text never depends on the error's Go type alone, so the wire
//     and the in-process path give the same answer.
package sqlerr
