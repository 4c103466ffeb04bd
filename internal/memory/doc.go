// Package memory divides what the process may use of the machine's memory among
// the parts that use most of it. Each keeps to its part by itself; together
// they keep to the limit.
//
//	block cache   1/4, at most 8 GiB    of the store; off the Go heap
//	memtables     1/16, at most 256 MiB of the store; off the Go heap
//	sorting       1/8                   of index builds; off the Go heap
//	heap          the rest, 9/16        of TiDB's SQL layer, and everything else
//
// TiDB's SQL layer has most. What it needs grows with the statements: a hash join or a
// sort is on the heap until it spills, at its quota, and the schema, statistics and the
// plan cache stay there. Of the heap, statements may use four fifths before the largest is
// ended (tidb_server_memory_limit): with no room for garbage above that, Go would collect
// all the time.
//
// The block cache is second, since a miss costs a read and a decompression. Sorting
// happens now and then; with less memory for it there are more runs to merge, no more.
// Memtables need as much as lets flushes keep up with writers; with larger ones recovery
// after a crash takes longer.
package memory
