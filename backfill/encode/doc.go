// Package encode makes the entries of a table's indexes from its rows. It knows nothing of
// builds: [Task] names the indexes, [Projection] says which columns of a row they need,
// [Encoders] encode batches of rows as a scan returns them, and a [RowEncoder] encodes
// single rows as they are stored.
//
// Most entries are encoded straight from the columns of a batch, without an allocation per
// row. Multi-valued and global indexes are encoded by TiDB's package tables. [Supported]
// names what is left to TiDB. Virtual columns are computed by TiDB's expression library;
// they need TiDB's package planner/core in the program, which compiles expressions. Every
// server has it.
//
// # Invariants
//
//   - Entries equal TiDB's, byte for byte; package equality compares them over all
//     kinds of indexes, types and collations.
//   - The entries of a row are a function of the row, its table and the Task.
//   - A row without an entry is a *[RowError], and nothing else is: no retry cures it.
package encode
