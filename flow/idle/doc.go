// Package idle runs processes on the processor time that all others leave. The server starts its build worker by it: its own binary, in a process of its own.
//
// # A process of class idle
//
// The server calls [Start]. The process calls [Enter] before anything else. Between them:
//
//	what                      who        why
//	a session of its own      server     where the kernel divides processors by session (sched_autogroup_enabled)
//	                                     the class counts within a session only
//	the autogroup's nice 19   process    the session's share
//	a control group           server     where the server may make one: of class idle as a whole, it replaces the
//	                                     autogroup. The process joins it
//	scheduling class idle     process    of one thread, which executes the program anew: that ends the other
//	                                     threads, and all new ones inherit the class
//	I/O class idle            process
//	OOM score + 500           process    the kernel kills the process before the server
//
// What the kernel refuses is left out. [Means] is what the kernel says afterwards, with the reasons for what is
// missing, as one line for the log.
//
// A parent-death signal is not used: it follows the thread that started the process, not the server. The process
// has to end when its connection to the server does.
//
// # Invariants
//
//   - After [Enter] returns without an error no thread of the process has a class or nice value above another's.
//   - A control group is made only where no process is in the way and no limit of the server's group would be left:
//     as a child in version 1, as a sibling in version 2.
//   - Wait removes the group. The group of a server that was killed is removed by the next [Start].
package idle
