// Package model computes what an index build costs on machines that are not here: requests, files that
// stores take in, memory, temporary space, and seconds by stage with what bounds them.
//
// [Estimate] is the model: pure, of a [Build] and a [Cluster]. It follows the code that builds: ranges and
// subtasks (ddl/dist, backfill), memory, runs and flushes (ingest), imports (lightning, kv/tikv/sstimport).
// Designs other than today's ([Design]) are computed by the same functions.
//
// # Invariants
//
//   - Limits of the code are quoted, with their file ([Quoted]). A test reads them from the source, so a limit
//     that changes there changes here.
//   - Costs of processors are measured ([Costs]): the fewest that explain the measured points. What is not
//     measured is an [Assumption] and printed as one.
//   - Every measured point of the project's documents and results is in [Points]: within a quarter of what the
//     model gives, or with the reason why it is not. A test fails otherwise.
//   - The same input gives the same output, byte by byte: docs/scale.md is what [WriteTables] writes.
package model
