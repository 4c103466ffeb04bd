// Package blackbox tests the built binary from outside, as its users meet it: a
// real process, the MySQL protocol and a real driver, signals, the file system.
// It knows nothing of the code; what it needs to know is asked for in SQL.
//
// The binary is built once for all tests, or named by FASTDDL_BIN.
package blackbox
