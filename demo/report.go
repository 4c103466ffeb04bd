package demo

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// phaseStats is what the load felt in one phase.
type phaseStats struct {
	latencies []time.Duration
	conflicts int
	errors    int
}

// percentile returns the latency that the fraction p of transactions did not
// exceed, 0 without any.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// report prints what the foreground felt before, during and after the build.
// The load must have been stopped.
func (w *workload) report(out io.Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	type line struct {
		name  string
		value func(p phase, s phaseStats) string
	}
	for i := range w.stats {
		slices.Sort(w.stats[i].latencies)
	}
	ms := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 2, 64)
	}
	lines := []line{
		{"seconds", func(p phase, _ phaseStats) string { return fmt.Sprintf("%.2f", w.length(p).Seconds()) }},
		{"transactions", func(_ phase, s phaseStats) string { return strconv.Itoa(len(s.latencies)) }},
		{"transactions/s", func(p phase, s phaseStats) string {
			return fmt.Sprintf("%.1f", float64(len(s.latencies))/w.length(p).Seconds())
		}},
		{"p50 ms", func(_ phase, s phaseStats) string { return ms(percentile(s.latencies, 0.50)) }},
		{"p99 ms", func(_ phase, s phaseStats) string { return ms(percentile(s.latencies, 0.99)) }},
		{"conflicts", func(_ phase, s phaseStats) string { return strconv.Itoa(s.conflicts) }},
		{"errors", func(_ phase, s phaseStats) string { return strconv.Itoa(s.errors) }},
	}
	fmt.Fprintln(out, "what the load felt:")
	t := tabwriter.NewWriter(out, 12, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tbefore\tduring\tafter\t\n")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t", l.name)
		for p := before; p < phases; p++ {
			fmt.Fprintf(t, "%s\t", l.value(p, w.stats[p]))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // nothing to do about a terminal that went away
}

func (w *workload) length(p phase) time.Duration { return w.ended[p].Sub(w.started[p]) }
