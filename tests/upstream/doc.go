// Package upstream is the register of what fastddl relies on in TiDB, client-go, TiKV
// and PD beyond their interfaces: which rows their code writes, in which order it does
// things, what it leaves out.
//
// register.tsv has a row for each declaration: its module, file and name, a hash of its
// source, our files that rely on it or describe it, and why. The source is that in the
// module cache. A test names each row whose declaration has changed or is gone; a person
// reads the new source, changes our code where that is needed, and accepts the row:
//
//	FASTDDL_ACCEPT=1 go test ./tests/upstream
//
// Comments and formatting do not count. TiKV and PD are not in the module cache: their
// rows have a hash of @ and the version that was read.
//
// A comment or a document that names a file of theirs needs a row that names both. What is
// wrong in these modules, and how we deal with it, is in docs/upstream-bugs.md; another
// test checks that its reproductions and files exist. docs/upgrading-tidb.md says when to
// look here.
package upstream
