// Package load is the foreground: the transactions of sysbench's
// oltp_read_write, run against any system at a given rate, or as fast as they
// are answered.
//
// At a given rate, transactions arrive by a timetable that does not wait for
// the system, and their latency counts from the arrival: a system that stands
// still for a second is charged for everybody who came in that second.
package load
