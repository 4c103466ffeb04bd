// Package flowtest has a foreground for tests of what builds do on the
// governor's behalf. What its signals say is up to the test, not to the machine
// that it runs on.
package flowtest
