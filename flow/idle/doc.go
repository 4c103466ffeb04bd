// Package idle runs processes on the processor time that all others leave, and sees to it that they are
// neither felt nor starved. The server starts its build worker by it: its own binary, in a process of its own.
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
// # Least progress
//
// Where others want all processors, class idle gets a thousandth of one. A [Keeper] raises the process step by
// step while it gets less than [LeastShare] of one processor although it wants more, and lowers it when it gets
// much more. [Ladder] decides, as pure code. One knob is turned, the one that is in force: the weight of the control group,
// the nice value of the autogroup, or else class and nice value of the threads. The last needs CAP_SYS_NICE or
// RLIMIT_NICE. Where the kernel refuses, [Progress] says Starved.
//
// # Quota
//
// In a container with a quota of processor time the kernel stops all threads of the container when the quota of a
// period is used up, of any class. A [Quota] measures the groups with a quota above the process. [QuotaControl]
// decides, as pure code, how much the process may run so that the container stays below
// [QuotaCeiling] of its quota. Where the process has a control group of its own, the
// kernel enforces it; else the caller slows its workers down to [QuotaDecision].Share. Both at once hold: what is enforced is more than
// LeastShare, so that a Keeper does not work against it, and slowed workers sleep, so that they do not wait.
//
// # Invariants
//
//   - After [Enter] returns without an error no thread of the process has a class or nice value above another's.
//   - A control group is made only where no process is in the way and no limit of the server's group would be left:
//     as a child in version 1, as a sibling in version 2.
//   - Wait removes the group. The group of a server that was killed is removed by the next [Start].
//   - A process is below its least share for at most 10 s while a level could change that, and back at level 0 at most 18 s after
//     all others have ended. One that could not be raised again is not lowered.
//   - A [Quota] leaves the process [MinQuotaShare] of the time, or 13% of a processor, even where others use up the quota.
//   - [Ladder] and [QuotaControl] have neither clock nor files.
package idle
