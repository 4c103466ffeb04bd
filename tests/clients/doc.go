// Package clients runs other people's clients against the built server: drivers
// of five languages, object mappers and their migrations, load generators, dump
// and restore. What an application written for MySQL or TiDB does with them must
// work here unchanged.
//
// The programs in other languages are in testdata. Their packages are installed,
// in pinned versions, by the language's own installer into a temporary folder. A
// client whose language or package cannot be had on the machine is skipped, and
// says why; the time for it is bounded.
//
// It is a module of its own, so that its clients do not move the versions that
// the server is built from.
package clients
