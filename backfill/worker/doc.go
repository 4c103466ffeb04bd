// Package worker does the part of an index build that takes most of it, reading rows, sorting their entries and writing
// final files, in a process of its own: the build worker. Statements then have Go's collector and scheduler for themselves, and
// a build that dies takes nothing with it.
//
// # Who does what
//
//	server ([Host], a backfill.Ingester)                 worker ([Serve])
//	 waits for commits at or below S
//	 makes a checkpoint of the table, by links
//	 starts the process                    -- start -->   opens the checkpoint
//	 divides the resources                 -- parts -->   reads at S, sorts, writes final files
//	 shows the job                      <-- progress --
//	 checks files and links them          <-- import --   waits for the answer
//	 writes the job's checkpoint            <-- save --   waits for the answer
//	 verifies and publishes                 <-- done --   ends
//
// Both speak over a socket pair, in one gob stream each way (message.go). A process has one build, so that its memory is the
// build's, and so is its death. It is the same binary, started by [Starter], which runs [Main].
//
// A page of memory has the number of statements that the server executes: the worker yields to them between two batches.
//
// To backfill the worker is a kv.Store: the checkpoint, whose Import asks the server. What the worker imports it also links into its
// checkpoint if a unique index is built, because later rounds look for equal values there.
//
// # Invariants
//
//   - The store has one writer: the server. A file of the worker is linked only if it lies in the job's folder, its version is
//     S, its keys are those of the indexes that are built, and it is what its description says (pebblekv.Store.Import).
//   - When [Host.Ingest] returns, the process has ended, no import of it is under way, and its checkpoint and its files are gone.
//   - The end of the worker, however it comes, is an error of the attempt: the job goes on from what was saved last. The end of the
//     server ends the worker, because the socket closes.
//   - What the worker may use is what the job's share says, which the server goes on dividing between all jobs.
package worker
