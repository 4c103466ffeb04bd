// Package bench measures ADD INDEX from end to end on a store of its own or on a cluster, and
// beside it the floor: what the machine needs at least to read the table once
// and to write the index's file once. It starts the server for that ([Server]), and for package demo.
//
// The table is loaded below SQL: rows in the encoding that SQL would write are
// imported as sorted files. What is measured is not: the index is added by the
// same DDL job that a client's ALTER TABLE makes, so queue, schema states and
// metadata lock are in the figures.
//
// Of a cluster only this process is seen: processor time, memory and floor are without
// those of the stores.
package bench
