// Package dist divides index builds among the nodes of a cluster. A node has a lease while it is a member (package member):
// it may run jobs and build subtasks as long as that lasts. The owner of a job cuts its build into subtasks, which are rows
// of mysql.fastddl_build_parts (scheduler.go, table.go); executors of all nodes claim and build them (executor.go,
// executorview.go); the owner adds up their results. The rules are pure code over the subtasks of one job (subtask.go,
// trouble.go).
//
//	open -> held -> done
//	  ^      |  \
//	  +------+   failed
//
// A member claims the next subtask when all rows of those that it holds are being read, up to its
// share, and imports what they give together, without overlap. A subtask goes back to open
// when its holder gives it up, or is no member any more. The owner halts the job by wanting
// its subtasks no longer and waiting until no node holds one. Subtasks belong to the job and S, not to the
// owner: their holders go on when the job gets another owner.
//
// # Invariants
//
//   - A subtask has one holder. Each claim counts its epoch up, and what is written for a
//     subtask is written in a transaction that finds holder and epoch unchanged: a node that has lost it writes nothing.
//   - Only subtasks that are wanted are claimed. The owner that halts a job writes every subtask, and
//     a claim writes its own, so one of two that are concurrent fails and looks again.
//   - A subtask of a holder that is no member any more is opened after the store refuses its
//     late imports, never before.
//   - A subtask that is done, or has failed, stays so.
//   - No more nodes hold subtasks of a job than its limit says.
//   - A node whose lease has ended starts nothing. It gives the jobs to others only when none of them runs here any more; it leaves
//     also when the store does not answer, since other nodes may reach it.
package dist
