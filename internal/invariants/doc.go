// Package invariants has assertions that the tests switch on: with the build tag
// "invariants", which Pebble's own assertions have too, and under the race
// detector.
//
// An assertion that does not hold is a mistake in the program, never in its
// input, and panics. What costs anything to find out stands behind Enabled, a
// constant, so that a server built without the tag holds nothing of it:
//
//	if invariants.Enabled {
//		invariants.Check(slices.IsSorted(keys), "keys are not sorted")
//	}
package invariants

import "fmt"

// Violation is what Check panics with. Code that contains panics and retries must let it
// pass, or it would stay unseen.
type Violation string

// Check panics with a Violation if a condition does not hold and assertions are
// Enabled.
func Check(holds bool, format string, args ...any) {
	if Enabled && !holds {
		panic(Violation("invariant violated: " + fmt.Sprintf(format, args...)))
	}
}
