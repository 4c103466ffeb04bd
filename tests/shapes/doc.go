// Package shapes builds indexes of random tables with TiDB and with fastddl, and compares the
// entries byte for byte, or the errors. Each round has another table: its handle, columns,
// collations, partitions and history are random, as are the rows and the statement.
//
// An index is built by TiDB in one database, and by fastddl's SQL layer in another one whose
// table has the same definition and history and the very same rows. It is built twice more
// by package backfill, with small batches: from the embedded store's scan and through the
// driver for TiKV, over several regions. At last DML deletes and inserts the rows in the
// table that has the index.
//
// TestRandomAlters compares statements that add an index and do more.
package shapes
