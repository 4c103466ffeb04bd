// Package crew has the rules by which the nodes of a cluster divide the parts of an index
// build. It is pure code over the parts of one job as a table keeps them; package ddl
// reads and writes them in transactions.
//
//	open -> held -> done
//	  ^      |  \
//	  +------+   failed
//
// The job's owner cuts the parts and wants them built; members of the cluster claim them. A
// member claims the next one when all rows of those that it holds are being read, up to its
// share, and imports what they give together, without overlap. A part goes back to open
// when its holder gives it up, or is no member any more. The owner halts the job by wanting
// its parts no longer and waiting until nobody holds one.
//
// # Invariants
//
//   - A part has one holder. Each claim counts its epoch up, and whoever writes for a
//     part compares holder and epoch first: who has lost it writes nothing.
//   - Only parts that are wanted are claimed. Whoever halts a job writes every part, and
//     a claim writes its part, so one of two that are concurrent fails and looks again.
//   - A part of a holder that is no member any more is opened after the store refuses its
//     late imports, never before.
//   - A part that is done, or has failed, stays so.
//   - No more nodes hold parts of a job than its limit says.
package crew
