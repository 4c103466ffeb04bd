// Package distribution sums up how the values of an index are distributed, from its entries in key order:
// how many rows and NULLs it has, how many different values, which of them are the most frequent, and how many rows
// lie between some of them. TiDB's statistics are made of it.
//
// A [Collector] takes the keys of one sorted stream. The [Summary] that it returns is joined with those of the
// streams behind it in key order by [Join], which is exact, and with those of other streams of the same index
// by [Merge], which is not where values have to be left out.
//
// A value is the encoded columns of a key, without the handle that may follow. No encoded column begins with
// another one, so that a key that begins with a value has it.
//
// # Invariants
//
//   - Rows, Nulls, Different and Top of a summary of one stream are exact, also after Join.
//   - The buckets of a summary are in key order, do not overlap, and have Rows together.
//   - While all buckets have one value each, a summary is exact in all it says, also after Merge.
package distribution
