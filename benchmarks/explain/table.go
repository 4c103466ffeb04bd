package explain

import (
	"fmt"
	"math"
	"strings"
	"time"
)

func timed(fn func() error) (seconds float64, err error) {
	start := time.Now()
	err = fn()
	return time.Since(start).Seconds(), err
}

// ratio is the estimate to what happened, 0 if that is not known.
func ratio(estimate, actual float64) float64 {
	if actual == 0 {
		return 0
	}
	return estimate / actual
}

// text is a ratio with the estimate's figure.
func text(estimate, actual float64) string {
	if actual == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", ratio(estimate, actual))
}

func (c *Comparison) line() string {
	return fmt.Sprintf("%-32s rows %s, index %s of %.1f MiB, memory %s of %.1f MiB, temp %s of %.1f MiB, seconds %s of %.2f; EXPLAIN took %.2f s",
		c.Case.Name, text(float64(c.Estimate.Rows), float64(c.Actual.Rows)),
		text(float64(c.Estimate.StoreBytes), float64(c.Actual.StoreBytes)), float64(c.Actual.StoreBytes)/(1<<20),
		text(float64(c.Estimate.MemoryBytes), float64(c.Actual.MemoryBytes)), float64(c.Actual.MemoryBytes)/(1<<20),
		text(float64(c.Estimate.TempBytes), float64(c.Actual.TempBytes)), float64(c.Actual.TempBytes)/(1<<20),
		text(c.Estimate.Seconds, c.Actual.Seconds), c.Actual.Seconds, c.ExplainSeconds)
}

// Markdown is the table of all comparisons: what happened, and the estimate to it.
func Markdown(found []Comparison) string {
	var b strings.Builder
	b.WriteString("| index | rows | bytes in the store | memory | temp folder | seconds | EXPLAIN took |\n|---|---:|---:|---:|---:|---:|---:|\n")
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	cell := func(estimate, actual float64, shown string) string {
		if actual == 0 {
			return "-"
		}
		return fmt.Sprintf("%s: %.2f", shown, estimate/actual)
	}
	for i := range found {
		c := &found[i]
		e, a := &c.Estimate, &c.Actual
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %.2f s |\n", c.Case.Name,
			cell(float64(e.Rows), float64(a.Rows), fmt.Sprint(a.Rows)),
			cell(float64(e.StoreBytes), float64(a.StoreBytes), fmt.Sprintf("%.1f MiB", mib(a.StoreBytes))),
			cell(float64(e.MemoryBytes), float64(a.MemoryBytes), fmt.Sprintf("%.1f MiB", mib(a.MemoryBytes))),
			cell(float64(e.TempBytes), float64(a.TempBytes), fmt.Sprintf("%.1f MiB", mib(a.TempBytes))),
			cell(e.Seconds, a.Seconds, fmt.Sprintf("%.2f s", a.Seconds)), c.ExplainSeconds)
	}
	sizes, times := within(found)
	fmt.Fprintf(&b, "\n%d of %d sizes in the store are within 15%%, %d of %d times within 50%%.\n", sizes, len(found), times, len(found))
	return b.String()
}

// within returns how many estimates of sizes are within 15%, and of times within 50%.
func within(found []Comparison) (sizes, times int) {
	for i := range found {
		c := &found[i]
		if math.Abs(ratio(float64(c.Estimate.StoreBytes), float64(c.Actual.StoreBytes))-1) <= 0.15 {
			sizes++
		}
		if math.Abs(ratio(c.Estimate.Seconds, c.Actual.Seconds)-1) <= 0.5 {
			times++
		}
	}
	return sizes, times
}
