// Package pebblekv is the embedded driver of package kv: a multi-version store
// on Pebble, in one folder, for one process.
//
// # Layout
//
// A version of a key is one Pebble key, encoded as cockroachkvs does: the user
// key, a zero byte, the timestamp, a length byte. Versions of a key sort newest
// first. The value is the user's, or empty for a tombstone. So Pebble's
// columnar blocks keep timestamps in a column of their own, its bloom filters
// are over user keys, and its block properties know the interval of timestamps
// in each block and file. The store's own records are Pebble keys without a
// version behind all user keys, which therefore may not begin with 0xff. Only
// keys.go knows any of this.
//
// A folder is a store if it holds the marker file, which is written before
// anything else and has the format's version, the store's id, and whether the
// engine's files have been made: from then on a missing one is a loss, and not a
// store that is new. Everything is locked against other processes with Pebble's
// lock file, and private to the user that runs the process.
//
// # Timestamps and order
//
// The [timeline] hands out timestamps that follow the clock but never go back:
// before one is handed out, a bound above it is durable, and the next life of
// the store starts at the bound.
//
// A commit takes its timestamp and becomes in flight in one step, or is given a
// timestamp that was handed out before. Commits finish in any order, because they
// wait for the log together. A Snapshot at a timestamp waits for what is in flight
// at or below it; nothing can appear there later, since timestamps only grow and
// the caller that commits at an earlier one has made sure that no reader is there.
//
// # Commits
//
// Apply writes all versions of a commit as one atomic batch. It checks nothing:
// isolation, conflicts and locks are those of package txn above it.
//
// Tombstones are always written, also for keys that do not exist: an index is
// built by importing versions in the past, and what DML deleted meanwhile must
// shadow them.
//
// # Failures
//
// Commits are acknowledged after their log record is synced. With Options.DisableSync
// they are after the operating system has their record, so that only a crash of the
// machine can lose some. When syncing fails the contents of the log are unknown, and
// syncing again would not reveal them. The commits concerned end with
// kv.ErrResultUndetermined, the store takes no more writes, and timestamps from
// the first such commit on cannot be read; what was acknowledged can. No caller
// waits for ever. The next Open recovers. Only where Pebble itself cannot go on
// (a failed write of its manifest for other reasons than a full disk) it ends the
// process, through the logger's Fatal. Errors of flushes and compactions are logged,
// those that repeat themselves now and then; while they stall writes, commits fail with
// them instead of queueing up.
//
// # Disk space
//
// The [spaceMonitor] refuses writes with a kv.DiskFullError while what is in memory can
// still be flushed. Deletions, what the owner calls essential, and the store's own
// records go on. When others fill the disk, a file in reserve is given up for those.
// Below that, [engineFS] keeps from Pebble that the disk is full: writes to the log and
// the manifest are repeated until there is space, since Pebble would give up either for
// good; flushes and compactions fail and are repeated with pauses. So everything
// goes on by itself once there is space. What was in flight when even the reserve was
// used up waits for that; later writes fail at once. For lack of file descriptors the
// engine waits in the same way, but the reserve is kept.
//
// # Damage
//
// Pebble takes the first record of a manifest that it cannot read for the end, and often
// that of a log. A log ends like that after a crash; but if records behind that place
// show that it had been synced, acknowledged commits are missing, and Open fails, unless
// Options.AllowDamagedLog gives them up. See [logCheck], also for what Pebble finds by
// itself. A damaged block of a table is an error for those who read it. The
// store's own records lie in files of their own, so that a table's damage does not
// keep it from being opened. A compaction that fails is followed by a pause, see
// [scheduler]. One of a damaged table of level 0 goes on failing when what the table holds
// is deleted, since the engine lets tables go by themselves only below the level that the
// deletion lies in. An import does not cut a table in two once damage was met. Undetected
// is: damage to the last few writes of a log or the last of a manifest, and the loss of a
// log that is not the newest.
//
// # Imports
//
// An import unit is an SST in which all versions have the unit's timestamp;
// Import links any number of them into Pebble in one step. Importing the same
// pairs again puts equal versions over equal versions. A file on another file
// system is copied into the folder "imports" first, which Open empties.
//
// Import returns nil only if each file, when it was checked right before, had the unit's size,
// span, version and number of pairs, with right checksums, and the engine has reported exactly these tables
// as taken in. A difference is a kv.DamagedUnitError, which says whether the engine had taken in
// anything when it showed. Imports wait for each other, since a report does not name its import. One
// that joins the queue of memtables is reported, and logged, when it joins.
//
// # Checkpoints
//
// A Checkpoint is the engine's files at one moment, by links: what was acknowledged before, and some later commits. Adopt makes
// another store of it, as of a timestamp: it removes later versions, gives the store an id, drops holds and moves the safe point to the
// timestamp. A former log that is written again is copied up to what has been written of it, not into what it held
// before; imports wait meanwhile.
//
// # Garbage collection
//
// The safe point is the lowest timestamp that can be read. It moves, under the
// timeline's lock, to the life time before now, but not beyond what is being
// read or held or is in flight; it is made durable before anything is deleted.
// Of each key, versions older than the newest one at or below the safe point
// are deleted, and that one too if it is a tombstone.
//
// That is correct with any concurrent operation:
//
//   - Reads are at or above the safe point, where the newest version at or
//     below it stands for all older ones, and a tombstone for nothing.
//   - Commits only add versions above the safe point, since their timestamps
//     are above everything that is being read or was handed out when it moved.
//   - Import registers as a reader at its version, or fails if the safe point
//     has passed it. So while it runs no tombstone newer than its version is
//     deleted, and no version equal to an imported one.
//   - A hold is granted under the lock that the safe point moves under.
//   - A crash keeps a prefix of the deletions. A key's tombstone is deleted
//     after all that it hides, so every prefix reads the same at the safe point;
//     what is left is found by the next run, which starts where the last
//     complete one ended.
//
// A run looks only at keys with a version between the last run's safe point
// and the new one: at no other key has anything become garbage. Blocks without
// such timestamps are skipped, so that an idle table costs next to nothing.
//
// # Scans
//
// Snapshots are timestamps, not Pebble snapshots, and walks over keys, shown or
// not, replace their Pebble iterator every few seconds, so that neither keeps
// memtables or obsolete files alive. An iterator that is not moved keeps its own. ScanColumns decodes rows from Pebble's block
// straight into a chunk that is used again for each batch. RowBatch.Visited is counted by the iterator, not by the decoder:
// rows lost on the way into a batch make a difference. A scan ends without an error only if its keys ascend and
// its iterator, over the whole range, has reached the end.
package pebblekv
