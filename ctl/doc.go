// Package ctl commands the index builds of a fastddl server from a shell: it executes a statement and shows how its build proceeds,
// lists, pauses, cancels and publishes builds, explains one before it begins, takes a backup. A [Client] does that over connections of
// the MySQL protocol; package ctl/connect makes them.
//
// # Invariants
//
//   - It has no power of its own: each command is SQL of the account that it connects with, and shows what that account may see.
//   - A build outlives the command: no signal, no lost connection and no error of this program ends it. It is cancelled only by an
//     answer to the question that Ctrl-C asks, or by the command cancel.
//   - The exit code says what happened, see [ExitCode]. That a build is done is said only if the server has said it.
//   - Text of the server is shown without control characters.
package ctl
