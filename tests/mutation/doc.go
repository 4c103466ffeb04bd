// Package mutation holds small changes of the code, each of which breaks one
// invariant of docs/correctness.md, and the test that notices each. A test that
// passes over broken code guards nothing; here that would be seen.
//
// That the changes still fit the code, and are listed in docs/mutations.md, is always
// checked. Making them takes minutes and is done with FASTDDL_LONG=1 (make
// mutations): a change is laid over its file for one run of go test, which must
// build it and fail in the named test. The tree itself is not touched.
//
// Two more lists are written to docs: guards has the tests of each invariant, and
// failures what users of other systems have met and which test shows that it does
// not happen here.
package mutation
