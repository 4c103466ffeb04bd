// Package dump loads the output of dump programs into a server, by SQL: [Open] reads what the files hold, [Run]
// creates databases, tables and views on the server and loads the rows of all tables in parallel.
//
// It reads folders of Dumpling, mydumper and MySQL Shell (util.dumpInstance), single files of mysqldump and
// mariadb-dump, and folders of plain CSV or Parquet files. The rows of a table are loaded by IMPORT INTO where the server
// can read the files, else by INSERT.
//
// Invariants:
//
//   - What the server cannot take is listed before anything is created. Objects that MySQL has and TiDB has not (triggers,
//     routines, events) are left out and named; a table that cannot be created, or a statement that belongs to no dump,
//     fails the load.
//   - Rows that were on the server before are never touched. A table with rows that this load has not written fails the
//     load before the first row.
//   - A table is loaded once. The server holds a record of each table (state.go), written before the first row and after the
//     last. A load that was interrupted goes on from it: a table that is loaded is left alone, one that was imported
//     is whole or empty, one that was being filled by INSERT is emptied first, and
//     one whose definition was not finished is created again.
//   - No value is changed on the way in: sessions are strict, and accept what the dump's server accepted (zero dates).
//   - Memory is bounded by one statement, or one batch of rows, for each connection. Temporary files are bounded by a quota.
package dump
