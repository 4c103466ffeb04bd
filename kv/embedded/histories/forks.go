package histories

import "slices"

// CheckForks looks at readings of keys that were written once each, in transactions of their own: of two readings one has
// seen all that the other has.
func CheckForks(name string, readings []map[int]bool) Report {
	report := Report{Txns: len(readings), Reads: len(readings)}
	sorted := slices.Clone(readings)
	slices.SortStableFunc(sorted, func(a, b map[int]bool) int { return len(a) - len(b) })
	for i := 1; i < len(sorted); i++ {
		for key := range sorted[i-1] {
			if !sorted[i][key] {
				report.add(LongFork, "of %s one reader has seen %v, another %v", name, keysOf(sorted[i-1]), keysOf(sorted[i]))
				break
			}
		}
	}
	return report
}

func keysOf(set map[int]bool) []int {
	var keys []int
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
