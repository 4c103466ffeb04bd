// Package sstimport imports sorted pairs into a TiKV cluster at a version in the past, by
// TiKV's service ImportSST.
//
// A unit (kv.ImportUnit) is a local file of pairs. Import sends what units hold, region
// by region: every peer's store is sent a file (Write), and the leader is told to take
// it (MultiIngest). What the stores' ranges are is asked of PD, and where a region would
// receive much more than regions are to hold it is split and scattered before.
//
// # Invariants
//
//   - A unit is consumed when all of its pairs have been taken, and never before. Its file
//     is kept until then, so that whatever fails is sent again from the file.
//   - Sending anything again is harmless, whatever became of it the first time: the pairs
//     and their version are the same, and every file has an identity of its own.
//   - Every peer of a region has been sent the whole file when the leader is told to take
//     it: a peer without the file could not follow the leader.
//   - The fence: the region, with its epoch, is looked up first, then the lease is asked,
//     then the request is sent, with that epoch. So a request that is sent late, by a node
//     that has slept since it asked, carries an epoch from before the lease was lost. Who
//     takes over changes the epochs first, and TiKV refuses the request. The region is
//     looked up again then, and the lease is asked again.
//   - A region may be sent several files side by side, of different keys. It is told to take
//     all of them by one request.
//   - What a region is sent at once, and so what stores must hold, is bounded by
//     Options.SplitBytes; memory is bounded by the number of streams.
//   - A label rule that keeps PD from moving the regions exists only while Import runs. It
//     ends by itself when nobody renews it.
//
// TiKV is never switched to its import mode. It says itself when it has too much to do:
// then its store is left alone for a while, which Busy shows.
package sstimport
