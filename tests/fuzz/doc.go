// Package fuzz sends the built server what no well-meant client sends: random
// statements over everything the grammar has, packets that are none, statements
// that would take all memory, clients that go away or stop reading.
//
// On any input the process does not end, no statement runs for ever, memory stays
// bounded, and a well-behaved client on a connection of its own notices nothing; the
// offender may get an error or lose its connection.
//
// TestRandomTransactions sends well-meant statements, of many clients that want the
// same rows; TestRandomSchemas those that change tables of all kinds, their partitions and
// the jobs that do so; TestRandomClients all of the binary protocol. There each error needs
// an explanation.
//
// A run is named by its seed, which is printed; what a seed does not fix is how
// the connections interleave. FASTDDL_TIME is how long each of the random tests runs
// (the transactions twice as long), and FASTDDL_SEED repeats one.
package fuzz
