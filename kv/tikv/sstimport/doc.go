// Package sstimport imports sorted pairs into a TiKV cluster at a version in the past, by
// TiKV's service ImportSST.
//
// A unit (kv.ImportUnit) is a local file of pairs. Import sends what units hold, region
// by region: it sends a file to every peer's store (Write), and requests the leader to
// ingest it (MultiIngest). PD knows the regions; one that would receive much more than
// regions are to hold is split and scattered before.
//
// # Invariants
//
//   - A unit is consumed when all of its pairs have been taken, and never before. Its file
//     is kept until then, so that a failed request is sent again from the file.
//   - An import succeeds only if its account adds up: the parts of the key space that were taken tile each unit, and the pairs
//     in the messages to stores are those that were added to it, by number, size and checksum. The leader has taken each
//     file of these parts once, and all peers have made the same files.
//   - Sending anything again is harmless, whether it succeeded the first time or not: the
//     pairs and their version are the same, and every file has an identity of its own.
//   - Every peer of a region has been sent the whole file before the leader is requested to
//     ingest it: a peer without the file could not follow the leader.
//   - The fence: the region, with its epoch, is looked up first, then the lease is asked,
//     then the request is sent, with that epoch. So a request that is sent late, by a node
//     that has slept since it asked, carries an epoch from before the lease was lost. Who
//     takes over changes the epochs first, and TiKV refuses the request. The region is
//     looked up again then, and the lease is asked again.
//   - A region may be sent several files side by side, of different keys. One request ingests
//     all of them.
//   - What a region is sent at once, and so what stores must hold, is bounded by
//     Options.SplitBytes; memory is bounded by the number of streams.
//   - A label rule that keeps PD from moving the regions exists only while Import runs. It
//     ends by itself when it is not renewed.
//
// TiKV is never switched to its import mode. An overloaded store answers that it is busy:
// the importer then backs off from it, which Busy shows.
package sstimport
