// Package cop is the coprocessor of a store that lives in this process: it answers the requests that TiDB pushes down to
// TiKV (DAG, ANALYZE, CHECKSUM) over one snapshot of the data.
//
// A DAG request is one chain of executors: a table or index scan, and above it selections, projections, limits, top-N and
// aggregations. The chain is run by pushing: the scan decodes pairs straight into a chunk and hands every full chunk to the
// executor above it; the last executor hands its chunks to a sink that encodes them. Nothing is collected but what an
// executor must keep (the heap of a top-N, the groups of a hash aggregation) and the encoded response itself.
//
// Expressions are evaluated by TiDB's own expression package, so that a condition means the same here and in the SQL layer.
//
// Invariants:
//
//   - A batch is dense (it has no selection vector) and belongs to its maker: the executor above may read it, or cut it
//     short, until its push returns, and copies what it keeps. This is what lets the scan use one chunk for a whole request.
//     Two columns of a batch may be one and the same.
//   - Slices handed out by a Reader are not kept either. Warnings and errors are turned into text before the batch that
//     they quote is reused.
//   - An executor that wants no more rows says so by returning false; it is not called again but to finish.
//   - Handle keeps nothing of a request but the memory of its chunks, keys and encoded rows, which an answer does not refer
//     to; it may be called from any number of goroutines.
//   - What goes wrong while evaluating (overflow, invalid data for a cast) is part of the answer, SelectResponse.Error with
//     its MySQL number. What goes wrong while reading is not: Response.Locked or Response.OtherError.
package cop
