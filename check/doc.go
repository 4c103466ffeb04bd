// Package check compares the indexes of a table with its rows: ADMIN CHECK
// TABLE, ADMIN CHECK INDEX and ADMIN CHECKSUM TABLE.
//
// It is written apart from everything that writes indexes: it decodes rows and
// computes the entries they must have with TiDB's library alone, and reads the
// entries that there are straight from the store. A mistake in the DML path, the
// backfill or the import therefore shows here.
//
// # How it works
//
// Everything is read at one timestamp, in parallel over the store's ranges.
//
// First, both sides are summed up: each entry a row must have, and each entry
// there is, is hashed and added to one of a few thousand buckets that its key
// chooses. Sums do not depend on order, so neither side has to be sorted or
// looked up in the other. If all buckets agree, so do rows and index; a
// difference goes unnoticed with a chance of about 2^-128.
//
// If buckets differ, the first difference is located: the side that has more is
// walked in key order, and what falls into a differing bucket is looked up on the
// other side. Few entries share a bucket with a wrong one, so this is little
// more than another scan.
//
// Memory is that of the buckets: a few hundred kilobytes per index, whatever the
// size of the table.
package check
