package demo

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"fastddl/sbtest"
)

// report prints what the load saw before, during and after the build.
func report(out io.Writer, s [phases]sbtest.LatencySummary) {
	decimals := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	lines := []struct {
		name  string
		value func(s sbtest.LatencySummary) string
	}{
		{"seconds", func(s sbtest.LatencySummary) string { return decimals(s.Seconds, 2) }},
		{"transactions", func(s sbtest.LatencySummary) string { return strconv.Itoa(s.Completed) }},
		{"transactions/s", func(s sbtest.LatencySummary) string { return decimals(s.PerSecond, 1) }},
		{"p50 ms", func(s sbtest.LatencySummary) string { return decimals(s.P50, 2) }},
		{"p99 ms", func(s sbtest.LatencySummary) string { return decimals(s.P99, 2) }},
		{"conflicts", func(s sbtest.LatencySummary) string { return strconv.Itoa(s.Retries) }},
		{"errors", func(s sbtest.LatencySummary) string { return strconv.Itoa(s.Failed) }},
	}
	fmt.Fprintln(out, "what the load felt:")
	t := tabwriter.NewWriter(out, 12, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tbefore\tduring\tafter\t\n")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t", l.name)
		for _, phase := range s {
			fmt.Fprintf(t, "%s\t", l.value(phase))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // nothing to do about a terminal that went away
}
