// Package verdict makes the errors of jobs whose rows do not let an index be built: equal values in a unique index, values
// that give an index no entry, rows that an index cannot distinguish. Each is permanent, has MySQL's number, names the first row
// and lists the others as far as a job's record holds them.
//
// # Invariants
//
//   - That rows cannot be listed, because the store cannot be read or something panics, does not change the verdict: neither
//     its number nor that it is final. A lost snapshot is no verdict: the rows are looked at again at another one.
//   - Each error has a form without values of rows, for logs, metrics and accounts that may not read the table.
package verdict
