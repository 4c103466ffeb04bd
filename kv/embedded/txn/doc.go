// Package txn is the transaction layer of the embedded store: it answers TiKV's transactional requests for one store in
// this process, over the versions that pebblekv keeps.
//
// # Where things are
//
// Committed data are versions in pebblekv. Everything else is in memory and gone after a crash: locks, the writes of
// transactions that have prewritten but not committed, who waits for whom, and how recent transactions ended. One commit
// is one atomic, synced batch, also when the transaction was prewritten in many requests: its writes are kept until its
// commit arrives, and then written together. Committing its other keys afterwards finds the work done.
//
// # Latches and locks
//
// Keys are spread over stripes by hash. A stripe has a latch, held by a request from checking its keys until it has
// locked them or changed its mind, and a mutex over its table of locks, held for moments only. Requests latch stripes in
// ascending order, so they cannot wait for each other in a circle. Releasing a lock needs no latch. A one-phase commit
// holds its latches until its batch is in the engine, which may take long where the disk does: a request that waits for a
// latch for too long fails with the error that the server is busy.
//
// The order of locking is: latches, transaction.mu, stripe.mu; and detector.mu before stripe.mu.
//
// # Who sees what
//
// A commit puts a lock on every key it writes before it takes its timestamp, and removes them after its batch is durable.
// A reader at T looks at the locks first and opens its iterator afterwards. So for each commit at or below T:
//
//   - if its locks were gone, its versions were there before the iterator;
//   - if it was committing (its timestamp is stored before a later one is handed out, see
//     pebblekv.ApplyOptions.Announce), the reader waits for it;
//   - if it was only prewritten, the reader raises the transaction's lowest commit timestamp above T, and it commits later
//     than T or not at all.
//
// A commit that shows no timestamp yet will take one above T. Hence readers never miss a commit at or below their
// timestamp, they never meet a lock that the client has to resolve, and no reader sees a version that is not durable.
//
// A reader of a single key that wants the newest version does not wait. It opens its iterator first and looks at the lock
// afterwards, and leaves out what is committing by then and not durable.
//
// Readers of single keys find locks in the stripes; readers of ranges look through the transactions that have prewritten
// or are committing (activeSet), which are few, instead of through all locks.
//
// # Conflicts
//
// A prewrite looks at the locks of all its keys before it opens the lookups for their versions: a commit removes its locks
// without a latch, and one of the two has to show it.
//
// Checks are TiKV's, for optimistic and pessimistic transactions, with differences that a client notices by the time it
// takes only: a request that meets a committing transaction waits for it instead of failing; a prewrite that meets any
// other lock waits for a while before it returns the lock; a lock request that was woken tries again by itself instead of
// returning to the client; and a transaction is rolled back, or committed, as a whole.
//
// Of the pessimistic transactions in a deadlock one gets the error (detector). Optimistic ones can block each other as well,
// when they prewrite in several requests: then the youngest of them fails with a conflict.
//
// A commit of a key that is locked but not written leaves no version. The stripe remembers it (lockRecords), and forgets
// the oldest when there are too many: transactions that began before the newest one forgotten conflict on that stripe,
// as do transactions that began before the store was opened.
//
// # Memory
//
// A lock of a row holds some two hundred bytes, and no statement is charged with them. All locks together have a bound
// (Options.LockMemory). Above it transactions that hold many get no more; those with few, and one-phase commits, whose locks
// are gone in a moment, go on.
//
// # Outcomes
//
// How a transaction ended is remembered for the last several hundred thousand ones (registry), so that repeated requests
// are answered alike and a late prewrite of a transaction that was rolled back fails. The commit of one that may have been
// forgotten, or that began before the store was opened, is proved by its version of the key; without one it is unknown
// whether it took place, which is not to say that it failed.
package txn
