// Package backup keeps copies of an embedded store: it takes them while the store is used, looks whether they are whole, and makes
// stores of them.
//
// # Layout
//
// A backup is a folder with a file of metadata and the folder "data", which holds the engine's files of one checkpoint. The metadata have a
// format, and are written last: a folder without them is what an interrupted backup has left, and is refused. They name
// each file with its size and, but for tables that are links, a checksum of all of it; the blocks of tables have checksums of
// their own.
//
// # Invariants
//
//   - A backup is as of one timestamp. The checkpoint holds all commits at or below it and some later ones, which [Restore] removes.
//   - Nothing changes the files of a backup. A restored store links the tables, which are never written again, and copies the
//     rest.
//   - A restored store has an id and a cluster id of its own, and holds nothing that names the process of the old one: both
//     may run side by side, also on one folder for temporary files.
//   - What began in the old store at an earlier timestamp and had not ended begins again in the restored one: nothing below the
//     timestamp can be read there.
//   - What fails or is cancelled leaves nothing. What is killed leaves a folder that is neither taken for a backup nor for a
//     store.
//
// On one file system a backup takes no more room than what has changed since, and seconds for any size. It is not a second
// copy then: damage to the disk, or to one of the files, is damage to both.
package backup
