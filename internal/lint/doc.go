// Package lint holds the house rules as tests: which package may import which,
// what libraries must not do, how long a file may grow, which phrases are banned.
// It has no other code.
//
// Each rule names the file and what to do instead. A rule that turns out wrong
// is changed here, with its reason, not worked around.
package lint
