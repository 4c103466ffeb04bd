// Package sqltype translates between TiDB's and go-mysql-server's (GMS) ideas
// of columns and values.
//
// A [Codec] belongs to one column. It is chosen once per table version; per
// value it runs one function without reflection or lookups by name.
//
// # Invariants
//
//   - Decoding what was encoded yields the value GMS holds for the column after
//     its own conversion to the column's type.
//   - A datum made here carries what TiDB's encoders look at beside the value
//     (collation of strings, precision and scale of decimals, fractional digits
//     of times), so its bytes are those TiDB writes.
//   - TIMESTAMP datums are UTC. GMS knows wall clocks only, so the session's
//     time zone is applied here and nowhere else.
package sqltype
