// Package crash runs random statements beside random schema changes against the
// built server, kills its process at random moments, and starts it again on the
// same folder.
//
// Each worker owns a set of ids, so it knows exactly what its rows must be: those
// of its last acknowledged commit, or, of the one commit that was in flight when
// the process died, all or nothing. Its transactions are optimistic and pessimistic,
// repeatable read and read committed, with one phase and two. Values of unique
// columns are shared, so that workers get in each other's way; a 1062 must name a
// value that two rows had. Beside them tellers move money between a few accounts, so
// that transactions wait for each other and deadlock: money neither comes nor goes,
// at any look. Most indexes are built by fastddl, some by TiDB; jobs are paused,
// resumed, cancelled and altered, and the settings that they follow change.
//
// After each publication, and over and over, every index must give the same rows as
// the table in the same snapshot, and old snapshots are read again: they hold what
// they held. After each restart the rows must be those, every index must give the
// same rows as the table, an ALTER must have done all or nothing, and when the jobs
// are over nothing of them may be left. At the end the store is opened and searched
// for keys of indexes that do not exist.
//
// # Faults
//
// TestFaultsUnderRandomLoad does more to the server while it runs. Its program is the
// same; what is done to it is done from outside:
//
//   - its clock jumps, forwards and back (clock: in the memory of the process);
//   - its disk is full for a while (a file system in memory, in a mount namespace);
//   - reads fail, or what precedes and follows writes (supervisor: the kernel asks it
//     before the system calls of files);
//   - it has no more file descriptors; its temp folder is gone;
//   - connections and statements are killed.
//
// Each kind explains some errors of statements that ran while it lasted, and no wrong
// result. A worker that meets one reads the rows and begins again: also then they must be
// those of the last commit, or of the one in doubt. When the fault is over the
// server has to take connections and writes again, or, after an error of its log, must
// have ended; a full disk ends it never.
//
// A run is named by its seed, which is printed; what a seed does not fix is how
// the statements interleave and where exactly the process dies.
package crash
