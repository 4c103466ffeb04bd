package ingest

import (
	"cmp"
	"math"
	"slices"
)

// claim is what one job wants of something that is divided.
type claim struct {
	weight int64 // positive
	// least is given in any case, most never exceeded.
	least, most int64
}

// divide divides total between the claims, in proportion to their weights but
// within their bounds; what one may not take goes to the others. All of total is
// given away, unless the claims together may not take it, and no more, unless
// they must be given more. Whole units that do not divide go to the claims whose
// parts were cut most, of equals to the first.
func divide(total int64, claims []claim) []int64 {
	ratio := fairRatio(total, claims)
	parts, left := make([]int64, len(claims)), total
	order := make([]int, len(claims))
	cut := make([]float64, len(claims))
	for i, c := range claims {
		exact := c.part(ratio)
		parts[i] = int64(exact)
		cut[i], order[i] = exact-math.Floor(exact), i
		left -= parts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cut[b], cut[a]) })
	for given := true; left > 0 && given; {
		given = false
		for _, i := range order {
			if left > 0 && parts[i] < claims[i].most {
				parts[i]++
				left--
				given = true
			}
		}
	}
	return parts
}

// part returns what the claim gets for each unit of weight being worth ratio.
func (c claim) part(ratio float64) float64 {
	return max(float64(c.least), min(float64(c.most), ratio*float64(c.weight)))
}

// fairRatio finds what a unit of weight is worth: as much as total allows.
func fairRatio(total int64, claims []claim) float64 {
	lo, hi := 0.0, float64(total)
	for range 64 {
		mid := (lo + hi) / 2
		sum := 0.0
		for _, c := range claims {
			sum += c.part(mid)
		}
		if sum <= float64(total) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
