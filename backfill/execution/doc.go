// Package execution has what builds and comparisons of a table have in common: their
// [Options], their share of the resources, their progress and costs, the counting of records,
// and the forms in which work is divided among nodes.
//
// A [Scheduler] divides a build or a comparison: it has [Subtask]s built or compared by several
// nodes, and returns a [SubtaskResult] of each. Subtasks and their results are kept with the
// job as JSON.
//
// # Invariants
//
//   - Subtasks together are the whole, without overlaps.
//   - A subtask fits into a row of a table of the job.
//   - The reported progress never goes back while a stage goes on.
//   - Records that are counted range by range are those of all physical tables, also
//     where the store's ranges are wrong.
package execution
