// Package config holds what an operator can set: the server's options (TOML
// file and flags) and the global system variables with their kind, range and
// default. Names follow TiDB's wherever TiDB has one; the section [tidb] takes
// settings of TiDB's own file.
//
// What is wrong is refused, all of it at once: unknown settings, sizes that are
// larger than the machine, durations without a unit.
//
// The package knows nothing of SQL: package sql shows the variables to clients
// and persists them, the DDL components read them through [Globals] and see a
// new value at once.
package config
