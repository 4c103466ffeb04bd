// Package sbtest is sysbench's table and its oltp_read_write, for all that shows
// or measures something beside a load: the demo, the benchmarks, the peers.
//
// Rows depend on the size of the table and the seed alone ([Generator]), so that
// all systems sort the same keys. [Start] runs the transactions on any system
// that gives it a [Session], at a given rate or as fast as they are answered, and
// returns the record of what clients saw.
//
// At a given rate, transactions arrive by a timetable that does not wait for
// the system, and their latency counts from the arrival: a system that stands
// still for a second is charged for every transaction that arrived in that second.
package sbtest
