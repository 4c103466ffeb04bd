package backfill

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// TestTilingFindsRangesThatAreNotScannedOnce: workers scan ranges in any order and in parts, some of which are left; a
// range that is scanned twice, in part or whole, that is neither scanned nor left, or that was not due, is an error.
func TestTilingFindsRangesThatAreNotScannedOnce(t *testing.T) {
	r := backfilltest.Rand(t)
	key := func(i int) []byte { return []byte{byte(i >> 8), byte(i)} }
	tasks := func(bounds [][2]int) (tasks []keyrange.Weighted) {
		for _, b := range bounds {
			tasks = append(tasks, keyrange.Weighted{KeyRange: kv.KeyRange{Start: key(b[0]), End: key(b[1])}})
		}
		keyrange.Sort(tasks)
		return tasks
	}
	for range backfilltest.Rounds(3000) {
		var due, parts [][2]int
		for at := r.IntN(3); len(due) < 5; at += r.IntN(2) {
			end := at + 1 + r.IntN(30)
			due = append(due, [2]int{at, end})
			for at < end {
				next := min(end, at+1+r.IntN(8))
				parts = append(parts, [2]int{at, next})
				at = next
			}
			at = end
		}
		r.Shuffle(len(parts), func(i, k int) { parts[i], parts[k] = parts[k], parts[i] })
		scanned := parts[:1+r.IntN(len(parts))]
		left := parts[len(scanned):]
		run := func(scanned [][2]int, left [][2]int) error {
			tiling := &tiling{table: "t"}
			require.NoError(t, tiling.begin(tasks(due)))
			for _, s := range tasks(scanned) {
				if err := tiling.scanned(s.KeyRange); err != nil {
					return err
				}
			}
			return tiling.check(tasks(left))
		}
		require.NoError(t, run(scanned, left))
		i := r.IntN(len(scanned))
		one := scanned[i]
		without := append(append([][2]int{}, scanned[:i]...), scanned[i+1:]...)
		for what, err := range map[string]error{
			"twice":          run(append([][2]int{one}, scanned...), left),
			"not at all":     run(without, left),
			"also left":      run(scanned, append([][2]int{one}, left...)),
			"not due":        run(append([][2]int{{500, 501}}, scanned...), left),
			"across a split": run(append([][2]int{{one[0], one[1] + 1}}, without...), left),
			"cut short":      run(append([][2]int{{one[0] + 1, one[1]}}, without...), left),
		} {
			require.ErrorAs(t, err, new(*execution.ScannedRangesError), "%s: %v scanned, %v left of %v", what, scanned, left, due)
		}
	}
}
