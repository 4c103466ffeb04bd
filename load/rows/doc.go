// Package rows reads the files of an import, or the rows of a query, and encodes each row: its
// record and its index entries, under the IDs of the table that a load fills. It writes nothing.
//
// [Open] divides the files of TiDB's LoadDataController into chunks. A [Reader] reads one chunk,
// row by row; readers of different chunks run side by side and share one [IDs]. [Reader.Rest] is
// what a checkpoint keeps of a chunk.
//
// CSV is parsed by TiDB's package mydump. INSERT statements have a parser of their own here, because mydump's
// takes DEFAULT and _binary for text, and Parquet is read by the column readers of the library that mydump
// uses, because mydump takes an unreadable page for NULLs. Values are cast, defaults, generated
// columns and constraints computed, and rows encoded by TiDB's packages table and tables, as INSERT
// does. Where TiDB's IMPORT INTO and INSERT differ, INSERT's way holds; doc comments name the places.
//
// # Invariants
//
//   - The pairs of a row are those that INSERT of the same values writes, byte for byte, but for IDs
//     that are generated.
//   - Each row of the source is in exactly one chunk, and in exactly one of a chunk's returned rows
//     and its rest.
//   - A row ID is handed out once for all readers of an IDs.
//   - A row that cannot be encoded is a *[RowError]. A source that cannot be read to its end is an
//     error: a truncated file never ends early without one.
//   - Fields are matched to columns by the names that the statement or the file gives, and by
//     position only where neither names them.
package rows
