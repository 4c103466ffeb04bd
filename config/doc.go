// Package config holds what an operator can set: the server's options (TOML
// file and flags) and the global system variables with their kind, range and
// default. Names follow TiDB's wherever TiDB has one.
//
// The package knows nothing of SQL: package sql shows the variables to clients
// and persists them, the DDL components read them through [Globals] and see a
// new value at once.
package config
