package report

import (
	"math"

	"fastddl/benchmarks/result"
	"fastddl/internal/stats"
)

// leastRounds is the number of rounds below which noise is not judged.
const leastRounds = 3

// noiseOf returns the factor within which a ratio says nothing: by how much the two equal variants of a place differ in
// the median of the rounds, and twice the standard error of that median. Ratios are taken within a round, so
// that what the machine does in the meantime falls on both.
func noiseOf(res *result.Flow, builds string, share float64, f figure) (factor float64, known bool) {
	all, again := byRound(res, variantOf(res, builds, result.FlowAll), share, f), byRound(res, variantOf(res, builds, result.FlowAgain), share, f)
	var logs []float64
	for round, a := range all {
		if b := again[round]; a > 0 && b > 0 {
			logs = append(logs, math.Log(b/a))
		}
	}
	if len(logs) < leastRounds {
		return 0, false
	}
	return math.Exp(math.Abs(stats.Median(logs)) + 2*medianError(logs)), true
}

// medianError is the standard error of the median of values that are distributed about normally, from their median absolute
// deviation: few outliers do not move it.
func medianError(values []float64) float64 {
	const deviationOfMAD, errorOfMedian = 1.4826, 1.2533
	middle := stats.Median(values)
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = math.Abs(v - middle)
	}
	return errorOfMedian * deviationOfMAD * stats.Median(distances) / math.Sqrt(float64(len(values)))
}

// effect returns the median of the rounds' ratios of a variant to all mechanisms, which is the geometric mean of the two equal
// variants, and whether it is beyond the noise. Known is false where the noise is not known, and the ratio is 0 if no round has it.
func effect(res *result.Flow, v result.FlowVariant, share float64, f figure) (ratio float64, moved, known bool) {
	all, again := byRound(res, variantOf(res, v.Builds, result.FlowAll), share, f), byRound(res, variantOf(res, v.Builds, result.FlowAgain), share, f)
	var ratios []float64
	for round, without := range byRound(res, v.Name, share, f) {
		if a, b := all[round], again[round]; without > 0 && a > 0 && b > 0 {
			ratios = append(ratios, without/math.Sqrt(a*b))
		}
	}
	ratio = stats.Median(ratios)
	noise, known := noiseOf(res, v.Builds, share, f)
	if len(ratios) < leastRounds {
		known = false
	}
	return ratio, known && (ratio > noise || ratio < 1/noise), known
}

// variantOf is the name of the variant of a kind in a place; empty if there is none.
func variantOf(res *result.Flow, builds, kind string) string {
	for _, v := range res.Variants {
		if v.Builds == builds && v.Kind == kind {
			return v.Name
		}
	}
	return ""
}

// byRound are the figures of a variant beside a load.
func byRound(res *result.Flow, variant string, share float64, f figure) map[int]float64 {
	rounds := make(map[int]float64)
	for _, s := range flowSlots(res, variant, share) {
		rounds[s.Round] = f(&s)
	}
	return rounds
}
