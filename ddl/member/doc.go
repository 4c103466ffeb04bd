// Package member says which nodes of a cluster live, so that
// the work of those that do not can be taken over, and notifies nodes that they have something to look at.
//
// A node is a member under a name that it has once: while it holds a lease of etcd, PD's,
// to which the key of its name belongs. When the lease ends etcd removes the key, and the
// others are notified.
//
// # Invariants
//
//   - A name is used once. A node that has lost its lease comes back under another.
//   - Who is no member for others is none for itself. A lease lasts, for its holder, from
//     when the request that renewed it was sent, by the monotonic clock and a tenth less;
//     for etcd from when that arrived. So it ends here first, also if requests or answers are
//     lost, and also if the process is stopped meanwhile: who asks reads the clock.
//     A renewal counts if the key is read beside it, which takes a quorum of etcd.
//   - A notification may be lost. Nothing depends on it but speed.
//
// A clock that stands still while the machine sleeps or is moved breaks the second; what is
// done to a store as a member is therefore fenced there, too (package ddl).
package member
