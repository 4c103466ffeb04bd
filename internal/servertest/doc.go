// Package servertest runs the built binary for tests that look at it from
// outside: it builds it, starts servers on free ports, and ends them in good
// order or as a crash would.
package servertest
