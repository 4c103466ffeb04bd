package histories

import (
	"cmp"
	"slices"
	"time"
)

// sighting is that a list was known to have a length at some time: as an append was acknowledged, or as it was read.
type sighting struct {
	at     time.Duration
	length int
	by     *Txn
}

// checkNewest checks the readings of single lists that have no timestamp. A snapshot may be older than they are and yet
// show a commit that was still under way for them; so they are compared list by list only: what was acknowledged, or seen
// by anybody, before the reading began is there, and nothing is there that had not begun when it ended.
func (a *analysis) checkNewest() {
	known := a.sightings()
	a.eachRead(func(t *Txn, op *Op, _ []int) {
		if !t.Newest {
			return
		}
		list := known[op.Key]
		before, _ := slices.BinarySearchFunc(list, op.Begun, func(s sighting, at time.Duration) int { return cmp.Compare(s.at, at) })
		if before > 0 && list[before-1].length > len(op.List) {
			s := list[before-1]
			a.report.add(Unlinearizable, "%s has %d values for %s, and had %d before that: %s", op.Key, len(op.List), t.describe(), s.length, s.by.describe())
		}
		if n := len(op.List); n > 0 {
			if w := a.writers[op.Key][op.List[n-1]].txn; w != nil && w.Begun > op.Ended {
				a.report.add(Unlinearizable, "%s has read what %s appended later", t.describe(), w.describe())
			}
		}
	})
}

// sightings lists by key and in the order of time from when on a list was known to have which length at least.
func (a *analysis) sightings() map[string][]sighting {
	known := make(map[string][]sighting)
	for key, list := range a.lists {
		for i, value := range list {
			if w := a.writers[key][value].txn; w != nil && w.Outcome == Committed {
				known[key] = append(known[key], sighting{w.Ended, i + 1, w})
			}
		}
	}
	a.eachRead(func(t *Txn, op *Op, own []int) {
		if list, _ := others(op.List, own); len(list) > 0 {
			known[op.Key] = append(known[op.Key], sighting{op.Ended, len(list), t})
		}
	})
	for _, list := range known {
		slices.SortFunc(list, func(a, b sighting) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(list); i++ {
			if list[i].length < list[i-1].length {
				list[i].length, list[i].by = list[i-1].length, list[i-1].by
			}
		}
	}
	return known
}
