// Package table turns rows into keys and values and back, in TiDB's encoding,
// and is the one place where DML maintains indexes.
//
// Rows are slices of datums in the order of the table's visible columns: public
// ones, without the hidden columns that the expressions of indexes are.
// TIMESTAMP datums are in UTC. Strings need not carry their column's
// collation: encoding takes it from the column.
//
// # Index maintenance by schema state
//
// What a row change writes to an index depends on the state that the
// transaction's version of the table gives it:
//
//	state                    insert entry   remove entry
//	none                     no             no
//	delete-only              no             yes
//	write-only, write-reorg  yes            yes
//	public                   yes            yes
//
// Removing an entry writes a tombstone whether or not the entry is there: a
// backfill may import it later at an older version, and the tombstone has to
// shadow it. An entry whose key and value an update leaves as they are is not
// written: the row's older version gave the same one.
//
// A non-unique entry is derived from its row's key and is written only together
// with it, so it takes part in no conflict check (kv.NoConflictCheck); entries
// of unique indexes are checked like any key.
//
// While a primary key is being added its nullable columns carry
// mysql.PreventNullInsertFlag: no write brings a NULL into them any more.
//
// Generated columns are computed here, whatever a caller gives for them: STORED
// ones when a row is written, virtual ones when a row is read or an entry made. An
// expression that has no value for a row refuses the row. A row that has none in
// an index being built has no entry in it, so it can be changed and deleted.
//
// Columns that are not public yet, or not any more, are kept in a row that is
// written: an update carries their stored values over, an insert gives them
// the value that rows from before the column have.
package table
