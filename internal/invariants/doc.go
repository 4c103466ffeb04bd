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

// Check panics with a message if a condition does not hold and assertions are
// Enabled.
func Check(holds bool, format string, args ...any) {
	if Enabled && !holds {
		panic("invariant violated: " + fmt.Sprintf(format, args...))
	}
}
