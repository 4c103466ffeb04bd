// Package terminal writes for people: a bar of progress that moves in place, tables, and text of a server without control
// characters.
//
// Invariants:
//
//   - A bar takes one line: it leaves the last columns of the terminal free, also for the ^C that this shows, so no terminal wraps it.
//   - What a server has sent reaches a terminal without control characters, so it cannot move the cursor, or write to the clipboard.
package terminal
