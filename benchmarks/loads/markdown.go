package loads

import (
	"fmt"
	"slices"
	"strings"

	"fastddl/internal/stats"
)

// Markdown is a table of medians, with the spread of the times.
func Markdown(found []Figures) string {
	var b strings.Builder
	b.WriteString("| | seconds | processor time, s | peak memory |\n|---|---:|---:|---:|\n")
	for _, f := range found {
		if len(f.Loads) == 0 {
			fmt.Fprintf(&b, "| %s | not measured: %v | | |\n", f.Name, f.Unavailable)
			continue
		}
		var times, cpu, memory []float64
		for _, l := range f.Loads {
			times, cpu, memory = append(times, l.Time.Seconds()), append(cpu, l.CPU.Seconds()), append(memory, float64(l.PeakMemory>>20))
		}
		fmt.Fprintf(&b, "| %s %s: %s | %.1f (%.1f to %.1f) | %.1f | %.0f MiB |\n", f.Name, f.Version, f.Statement,
			stats.Median(times), slices.Min(times), slices.Max(times), stats.Median(cpu), slices.Max(memory))
	}
	b.WriteString("\n| | settings |\n|---|---|\n")
	for _, f := range found {
		if len(f.Loads) > 0 {
			fmt.Fprintf(&b, "| %s | `%s` |\n", f.Name, strings.Join(f.Settings, "`, `"))
		}
	}
	return b.String()
}
