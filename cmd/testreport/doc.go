// Command testreport reads what go test -json has written and says which tests failed: each with the
// lines of its output that are not a log, its seed, and the command that runs it alone.
//
// It is called with the files of a run, tests-NAME.json. Beside each, tests-NAME.cmd holds the
// command of the run without its packages.
package main
