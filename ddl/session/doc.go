// Package session runs statements and transactions over TiDB's system tables and metadata, in internal
// sessions of TiDB's, for the packages that keep what index builds know.
//
// # Invariants
//
//   - Metadata is read and written by optimistic transactions only: pessimistic ones do not check keys that
//     they have not locked.
//   - A transaction that meets a conflict begins again from the start, until its context or the component ends. An
//     attempt that has begun is not interrupted, so that its outcome is known.
//   - A session in which something has failed is used by no one else.
package session
