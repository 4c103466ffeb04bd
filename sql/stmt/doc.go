// Package stmt decides who executes a statement. Data definition and ADMIN
// statements are parsed by TiDB's parser and reach package ddl whole, one
// statement one job; everything else goes to go-mysql-server.
//
// The seam is go-mysql-server's parser: [Parser] looks at the first words of a
// statement and either delegates or hands out an injected statement, a plan node
// of ours. So our statements keep what the engine offers: the session, the
// process list, KILL, warnings, prepared statements in SQL and over the wire,
// and statements sent several at a time.
//
// # What goes where
//
//   - To ddl: CREATE, ALTER, DROP, TRUNCATE and RENAME of tables, indexes and
//     databases. A statement of that kind that the engine's parser recognises in
//     a form the words did not show is caught behind it: the engine's own DDL is
//     never reached.
//   - Here: ADMIN statements; CHECK, CHECKSUM, ANALYZE, OPTIMIZE and REPAIR
//     TABLE; LOCK TABLES.
//   - To the engine: queries, DML, SET, SHOW, views, triggers, procedures,
//     users.
//
// # Choices
//
//   - Temporary tables and CREATE TABLE ... SELECT are refused with 1235, as the
//     server would keep half of their promise. DROP TEMPORARY TABLE finds no
//     table: 1051, a note with IF EXISTS.
//   - FOREIGN KEY and CHECK constraints are accepted and not enforced, with
//     warning 1235 for each, as in TiDB with both switched off, so that schemas
//     and dumps load. Nothing of them is stored: to drop one is error 1091 or
//     3821. A REFERENCES clause on a column is ignored, as in MySQL.
//   - LOCK TABLES commits and locks nothing, with warning 1235: dumps contain it.
//   - ANALYZE TABLE succeeds (statistics are kept by the server); OPTIMIZE and
//     REPAIR say in a note that they have nothing to do. CHECK TABLE runs the same
//     check as ADMIN CHECK TABLE.
//   - KILL QUERY of the session that issued a DDL statement cancels its job; the
//     statement ends with 1317 or the job's own error.
//
// # Limits
//
// A statement in COM_STMT_PREPARE is parsed by vitess before anyone else is
// asked, so ADMIN statements and TiDB's extensions to DDL cannot be prepared in
// the binary protocol; plain DDL can, and PREPARE ... FROM takes all.
package stmt
