// Package histories decides whether what clients of a transactional store have seen could have happened under snapshot
// isolation. Clients write down their transactions (Recorder); afterwards Check looks for anomalies in the whole. It
// knows nothing of the store: what it finds was seen by a client.
//
// # Lists
//
// Transactions read lists and append to them. All values of a list differ, and a list is read as a whole, so the longest
// reading of a list shows in what order its values were appended, and every reading how many of them it has seen. From
// that follow the dependencies between transactions:
//
//   - ww: the second appended right behind the first;
//   - wr: the second has read what the first appended last;
//   - rw: the first has read a list before the second appended to it;
//   - real time: the first had ended before the second began.
//
// Under snapshot isolation with timestamps of one clock there is no circle of these in which no two rw stand side by
// side. Two that do are a write skew, which snapshot isolation allows; not so if the reader had locked what it read, for
// then its rw dependency counts like ww. The circle's dependencies decide the anomaly's name (see Kind). This is the method
// of Adya and of Elle.
//
// # Views
//
// A pessimistic transaction reads at more than one time: plain reads at its start, or at that of the statement under
// READ COMMITTED, and reads with a lock at its end. Each of these views is a vertex of its own, in the order of their
// timestamps; only the last of them writes.
//
// A transaction that has not committed has still read: its readings have to fit as well.
//
// # Timestamps
//
// Where timestamps were recorded more is known than by dependencies: a view sees the transactions that committed at or
// below its timestamp, and no others (see CheckTimes).
//
// # Other histories
//
// CheckRegister looks whether reads and writes of a single value without transactions are linearizable, CheckForks
// whether two readers have seen independent writes in different orders.
package histories
