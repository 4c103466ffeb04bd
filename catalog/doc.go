// Package catalog stores schemas in TiDB's own metadata format (the `m` keys
// of TiDB's pkg/meta) and keeps the newest one in memory.
//
// An [InfoSchema] is one immutable version of all schemas. A change is one
// metadata transaction, run by [Catalog.Update]: it takes the next schema
// version, writes the schema diff beside the changed records, commits, and
// publishes the new InfoSchema before it returns. Tables that did not change
// are shared between versions, so objects derived from a [Table] live as long
// as that table's definition.
//
// # Invariants
//
//   - Versions are published in order, each exactly as it was committed.
//   - When Update returns, every later call of Current sees its change.
//   - A published schema was committed: a reader that takes Current and then
//     begins a snapshot finds, at that snapshot, everything the schema
//     promises (an index that is public in it was published before the
//     snapshot's timestamp).
//   - IDs of databases, tables, columns and indexes are never used again.
//
// The package also allocates auto-increment and row IDs, and keeps the small
// durable records that belong to the cluster and not to a table: global
// variables and named blobs.
package catalog
