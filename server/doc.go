// Package server puts the parts of a fastddl node together and owns its life:
// store, catalog, metadata lock, DDL owner, SQL engine, MySQL listener and the
// HTTP status server, started in this order and stopped in the reverse one.
//
// # Start
//
// [Start] binds both ports before it touches the store, so that a start that
// must fail for a port in use leaves the data alone. Every error names the
// setting that is to blame; what had been opened is closed again.
//
// # Stop
//
// [Server.Shutdown] loses nothing that was acknowledged and cancels no job:
//
//  1. /health turns to 503 and the listener closes: nobody new comes in.
//  2. Idle connections are closed; a running statement may finish within the
//     configured time, its client gets the whole answer, then it is closed too.
//  3. The DDL owner stops at a checkpoint. Sessions that wait for a DDL job get
//     an error; the job itself goes on at the next start.
//  4. Statements that still run are killed, and the engine and store close.
//
// # Lost clients
//
// An idle connection whose client goes away ends at once, and with it its
// transaction. So does one in the middle of a statement, which is checked several
// times a second, except for statements that wait for a DDL job: as in TiDB, the
// job goes on to its end.
//
// # Observation
//
// Every typed event of the DDL components arrives at one listener that writes
// the log and one that feeds the metrics; components do neither themselves.
// The libraries' own loggers are led into the same log.
package server
