package keyrange

import (
	"bytes"
	"slices"

	"fastddl/kv"
)

// Set is ranges of keys, in key order, of which no two adjoin. All of them are bounded.
type Set []kv.KeyRange

// Add adds a range. It reports false, and adds nothing, if some of its keys are in the set.
func (s *Set) Add(r kv.KeyRange) bool {
	if r.Empty() {
		return true
	}
	all := *s
	at, found := slices.BinarySearchFunc(all, r, func(a, b kv.KeyRange) int { return bytes.Compare(a.Start, b.Start) })
	if found || at > 0 && bytes.Compare(all[at-1].End, r.Start) > 0 || at < len(all) && bytes.Compare(r.End, all[at].Start) > 0 {
		return false
	}
	behind, before := at > 0 && bytes.Equal(all[at-1].End, r.Start), at < len(all) && bytes.Equal(r.End, all[at].Start)
	switch {
	case behind && before:
		all[at-1].End = all[at].End
		all = slices.Delete(all, at, at+1)
	case behind:
		all[at-1].End = r.End
	case before:
		all[at].Start = r.Start
	default:
		all = slices.Insert(all, at, r)
	}
	*s = all
	return true
}
