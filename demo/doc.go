// Package demo shows an index being built online, with nothing to set up: a
// real server in a temporary folder on free ports, or as a node of a cluster, a real driver, a table
// shaped like sysbench's, and a read/write load that goes on before, during and
// after an ADD INDEX.
//
// Latencies are those of the load's own transactions, as a client sees them;
// progress is what the job says of itself. [Run] fails if anything is wrong: a
// failed transaction other than a retryable conflict, an index that the check
// refuses, a query that does not use it. It removes all it made, also when it is
// interrupted.
package demo
