// Package peer runs the systems that are measured against each other.
//
// A Server is a process with a store of its own; a System is one way of adding
// indexes on a Server. Each server lives in a folder and on a port that it was
// given, under an account without rights where the benchmark has all of them,
// and never sees an instance that the machine has besides. Nothing is
// installed: a server whose programs are not there says so.
package peer
