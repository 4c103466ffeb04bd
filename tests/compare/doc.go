// Package compare runs the same random statements on TiDB's SQL layer over
// kv/embedded and over unistore, TiDB's own test store, and requires the same
// rows, the same numbers of changed rows and the same errors.
//
// What a statement gives is decided by the SQL layer and by what the store's
// transactions and coprocessor answer. The first is the same code on both sides,
// so that a difference is one of the stores. Statements are such that MySQL
// promises one result: without a total order, rows are compared as a bag; sums are
// of exact numbers; nothing depends on the time. Every third pair of tables has some
// thousand rows, more than operators and pages hold at a time.
package compare
