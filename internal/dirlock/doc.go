// Package dirlock makes a folder one process's own, for folders whose owner removes
// what it finds in them: with two owners, the second would remove the first one's
// files while they are in use.
//
// A lock is an advisory lock on a file in the folder, which the operating system
// takes back when the process ends, however it ends. So there are no stale locks, and
// the file stays where it is.
package dirlock
