// Package data makes the rows that every measured system is loaded with: a
// table shaped like sysbench's, as text that both LOAD DATA and COPY read.
//
// The rows depend on the size of the table and the seed alone, so that all
// systems sort the same keys.
package data
