// Package importsst is TiKV's service for importing files, over an embedded store: what
// a client that builds an index on a cluster talks to. It does what TiKV does with what it
// is sent, and refuses what TiKV refuses, so that a client that it accepts has made none
// of these mistakes:
//
//   - A file belongs to a region with an epoch. Write refuses an epoch that is behind the
//     region (RequestTooOld) or ahead of it (RequestTooNew), and names it as all that is
//     wrong with a file, by the text of a status; an import that finds the
//     region changed since fails with EpochNotMatch and the regions of now.
//   - Keys increase strictly, lie in the range that was announced, and that lies in the region.
//   - The commit timestamp is not 0. No two files have one UUID.
//   - The answer to Write repeats the metadata that was sent, with the column family of each file. It has neither a
//     size nor a count nor a checksum.
//   - A file is imported once. Importing it again says that it does not exist, as TiKV says
//     of what is imported already as well as of what is lost.
//   - Values of more than 255 bytes are in a file of their own. The file of entries holds them
//     here, too: nothing can be seen of one without the other.
//   - Files that are being imported are not imported beside that: "ingest file conflict".
//   - While imports are suspended, and while a test orders it, an import is refused as
//     ServerIsBusy, with the time to wait.
//
// Files live in the store's memory. There is one peer of each region, so that a client
// writes each file once. Deletions, and duplicates across files, are not supported: they
// are answered as errors.
package importsst
