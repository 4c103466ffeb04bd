// Package tidbsuite runs TiDB's own integration tests (tests/integrationtest of
// its module) against the built server: some forty thousand statements with the
// answers, errors, warnings and plans that TiDB's developers have recorded for
// them. Where this server answers otherwise, the statement is in a list with the
// reason, or the test fails.
//
// The files are in the format of mysql-tester
// (https://github.com/pingcap/mysql-tester), of which they use a small part.
package tidbsuite
