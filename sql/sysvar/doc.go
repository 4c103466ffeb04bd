// Package sysvar shows the system variables to SQL: our own from package config,
// with MySQL's behaviour, and those of go-mysql-server with its oddities
// repaired.
//
// Ours are GLOBAL only, but for tidb_ddl_reorg_priority, which sessions have of
// their own too. SET GLOBAL normalises the value (a number outside the
// range is clamped, with warning 1292; a value of the wrong type is 1232 or
// 1231), persists it, and only then puts it into config.Globals, where running
// jobs see it at once. SELECT @@x, SELECT @@global.x and SHOW VARIABLES show
// what is in force, not a copy from the session's start. A tidb_ variable that
// we do not have is refused with 1193: a variable that is accepted does what it
// says.
//
// # One process, several engines
//
// go-mysql-server keeps the registry of variables in a process-wide variable.
// [Register] replaces it once by one that delegates. A session that offers
//
//	SysVars() *sysvar.Vars
//
// sets and reads its own engine's variables; where go-mysql-server asks without
// a session (@@global.x, SHOW GLOBAL VARIABLES), the engine that registered last
// answers. In a server process there is only one.
package sysvar
