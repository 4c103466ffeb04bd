// Package mdl is the lightweight metadata lock: it knows which transactions
// have written which table under which schema version, and lets the DDL owner
// wait for exactly those that stand in the way of the next schema state.
//
// # What it guarantees
//
// I1: at any time, transactions write a table under at most two adjacent schema
// versions of it. The owner goes from version n to n+1 only after [Manager.Wait]
// for n has returned, and then nobody writes below n any more.
//
// Nothing ever queues behind a waiting owner: a statement that starts while it
// waits binds to the version that is current then, which is not waited for. A
// transaction that only reads never binds and is never waited for.
//
// # Why a binding cannot be missed
//
// There are two parties and one mutex, the manager's.
//
//	writer, Lock.Bind                      owner
//	  lock                                   publish version n
//	  read the table's current version       Wait(n): lock
//	  register the binding                            collect bindings below n
//	  unlock                                          unlock
//
// Reading the current version and registering the binding are one critical
// section, and the owner publishes before it enters its own. If the writer's
// section comes first, the owner finds the binding, whatever its version. If the
// owner's comes first, the writer's read happens after the publication and
// yields n or newer. A binding below n therefore exists only if Wait has seen
// it, and the set Wait has collected can only shrink: it is never necessary to
// look again.
//
// # Idle blockers
//
// While an owner waits, it can end the sessions of transactions that have run no
// statement for a time ([Options.IdleTimeout]). It looks at the same transactions
// that it waits for, so readers and those bound to the current version are never
// ended; and the session itself decides whether it is idle, under the lock with
// which it begins statements, so that no statement is cut off.
//
// # With the metadata lock off
//
// tidb_enable_metadata_lock=OFF turns waiting into refusing: instead of waiting
// for a binding below n, Wait condemns it, and the transaction fails at commit
// with error 8028. Only commits already in flight (past [Lock.CheckCommit]) are
// still waited for. Condemnation sticks to the binding, so switching the
// variable back and forth while transactions are open cannot let one through
// that the owner did not wait for.
package mdl
