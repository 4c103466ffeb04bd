// Package idle runs processes on the processor time that all others leave, and sees to it that they are
// neither felt nor starved. The server starts its build worker by it: its own binary, in a process of its own.
//
// # A process of class idle
//
// [Start] starts a process and gives it, while it has hardly begun:
//
//	what                      why
//	a session of its own      where the kernel divides processors by session (sched_autogroup_enabled) the class counts
//	                          within a session only
//	scheduling class idle     of all threads; those that are begun later inherit it
//	I/O class idle            likewise
//	a control group           where the server may make one: of class idle as a whole, it replaces the autogroup
//	the autogroup's nice 19   the session's share
//	OOM score 1000            the kernel kills the process before the server
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
// [QuotaCeiling] of its quota: the caller slows its workers down to [QuotaDecision].Share. A Keeper does not work against
// it, because slowed workers sleep instead of waiting for a processor.
//
// # Invariants
//
//   - After [Start] no thread of the process has a class or nice value above another's.
//   - A control group is made only where no process is in the way and no limit of the server's group would be left:
//     as a child in version 1, as a sibling in version 2.
//   - Wait removes the group. The group of a server that was killed is removed by the next [Start].
//   - A process is below its least share for at most 10 s while a level could change that, and back at level 0 at most 18 s after
//     all others have ended. One that could not be raised again is not lowered.
//   - A [Quota] leaves the process [MinQuotaShare] of the time even where others use up the quota.
//   - [Ladder] and [QuotaControl] have neither clock nor files.
package idle
