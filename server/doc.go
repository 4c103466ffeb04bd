// Package server makes a node of a store, TiDB's SQL layer and our index builds,
// and owns its life: the process-wide services of TiDB, the store, the SQL layer,
// TiDB's MySQL listener and the HTTP status server, started in this order and
// stopped in the reverse one.
//
// TiDB keeps its configuration, its log, its metrics and more in package variables:
// a process has one server at a time. What tidb-server's main function sets up,
// process.go sets up here.
//
// # Start
//
// [Start] binds both ports before it touches the store, so that a start that
// must fail for a port in use leaves the data alone. Every error names the
// setting that is to blame; what had been opened is closed again.
//
// # Stop
//
// [Server.Shutdown] loses nothing that was acknowledged and cancels no index build:
//
//  1. /health turns to 503 and the listener closes: nobody new comes in.
//  2. Index builds stop at a checkpoint, and go on at the next start. Sessions that
//     wait for one get an error.
//  3. Statements and transactions may end within the configured time, and their
//     clients get the answer; then all connections are closed.
//  4. The SQL layer and the store close.
//
// Each step is bounded. If one is not done in time, the error says so; the process
// may end nevertheless, since commits are durable when they are acknowledged.
//
// # A store that has failed
//
// When the store's log cannot be synced nothing can be written any more, and before
// long no transaction begins, until the store is opened again. So the server ends,
// with the error for its exit status; who starts it again has all that was acknowledged.
// A full disk is no such failure: the server waits for space.
//
// # Observation
//
// Every typed event of the DDL components arrives at one listener that writes
// the log and one that feeds the metrics; components do neither themselves. The
// log is one, TiDB's and ours, in TiDB's format; the status port shows TiDB's
// metrics and ours together. All its requests pass one guard (statusGuard), before
// TiDB's handlers, which ask nobody for a password.
package server
