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
// The MySQL port is bound, and does not listen before TiDB's server does: until
// statements can be executed connections are refused, as those to a MySQL or TiDB
// that has not started. A connection that is accepted and waits looks like a server
// that is up, and could not be handed to TiDB's listener. The status port answers from
// the first moment: /health and everything else with 503, what the start is doing, and
// for how long. The log has the same when a stage begins, and every five seconds.
//
// # Stop
//
// [Server.Shutdown] loses nothing that was acknowledged and cancels no index build:
//
//  1. /health turns to 503, and stays so until the process ends. New clients are let in
//     for graceful-wait-before-shutdown: 0 by default, as TiDB's.
//  2. The listener closes: no new client is let in.
//  3. Index builds stop at a checkpoint, and go on at the next start. Sessions that
//     wait for one get an error.
//  4. Statements and transactions may end within the configured time, and their
//     clients get the answer; then all connections are closed.
//  5. The status port shows nothing more of the store. The SQL layer and the store
//     close, and the status port at last.
//
// Each step is bounded. If one is not done in time, the error says so; the process
// may end nevertheless, since commits are durable when they are acknowledged.
//
// # A store that has failed
//
// When the store's log cannot be synced nothing can be written any more, and before
// long no transaction begins, until the store is opened again. So the server ends,
// with the error for its exit status; after a restart all that was acknowledged is there.
// A full disk is no such failure: the server waits for space.
//
// # Observation
//
// Every typed event of the DDL components reaches one listener that writes
// the log and one that feeds the metrics; components do neither themselves. There is
// one log for TiDB and us, in TiDB's format; the status port shows TiDB's
// metrics and ours together. All its requests pass one guard (statusGuard), before
// TiDB's handlers, which ask for no password.
package server
