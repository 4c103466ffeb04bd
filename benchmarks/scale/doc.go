// Package scale measures how the project's own ADD INDEX grows with the rows of
// the table and with workers. It runs the project's own benchmark, `fastddl
// bench addindex`, once for each point, in a process of its own.
package scale
