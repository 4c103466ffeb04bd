package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fastddl/benchmarks/result"
	"fastddl/internal/stats"
)

// FlowMarkdown is the section about the mechanisms of flow control: a table for each load, and what stayed within the noise.
func FlowMarkdown(res *result.Flow) string {
	var b strings.Builder
	m, setup := res.Machine, res.Setup
	fmt.Fprintf(&b, "Machine: %s, %d cores, %d GiB of memory, Linux %s; %s.\n", m.CPU, m.Cores, m.MemoryBytes>>30, m.Kernel, res.Version)
	fmt.Fprintf(&b, "%s rows; ADD INDEX, %s, and DROP INDEX follow each other without a pause. Rounds visit all variants in random order, seed %d.\n",
		thousands(setup.Rows), caseTitle(setup.Case), setup.Seed)
	fmt.Fprintf(&b, "sysbench's `oltp_read_write` on %d connections; latency counts from arrival. The capacity is %.0f transactions/s.\n\n", setup.Threads, res.Capacity)
	if !res.Complete {
		b.WriteString("*The run was cut short: not everything was measured as often as it should have been.*\n\n")
	}
	b.WriteString("Figures are medians of rounds, and of builds, with the lowest and the highest in parentheses. *To all* is the median of the rounds' ratios to what all\n" +
		"mechanisms gave in the same round. It is bold beyond the noise: the median by which two equal runs differ, with twice its error.\n\n")
	for _, share := range res.Setup.Shares {
		writeFlowLoad(&b, res, share)
	}
	writeWithin(&b, res)
	writeFlowSkipped(&b, res)
	for _, s := range res.Slots {
		for _, problem := range []string{s.Failed, s.Errors} {
			if problem != "" {
				fmt.Fprintf(&b, "- %s, round %d, %s: %s.\n", s.Variant, s.Round, loadTitle(s.Share), firstLine(problem))
			}
		}
	}
	return b.String()
}

// writeFlowSkipped names each place of which a variant was not measured.
func writeFlowSkipped(b *strings.Builder, res *result.Flow) {
	var places []string
	for _, v := range res.Variants {
		if v.Skipped != "" && !slices.Contains(places, v.Builds) {
			places = append(places, v.Builds)
			fmt.Fprintf(b, "- Builds %s were not measured: %s.\n", v.Builds, v.Skipped)
		}
	}
}

func loadTitle(share float64) string {
	if share == 0 {
		return "closed loop"
	}
	return percent(share) + " of the capacity"
}

func writeFlowLoad(b *strings.Builder, res *result.Flow, share float64) {
	answered := "answered"
	if share == 0 {
		answered = "to the capacity"
	}
	fmt.Fprintf(b, "### Flow control, %s\n\n", loadTitle(share))
	t := newTable(2, "builds", "mechanisms", "p50, ms", "p99, ms", "to all", "mean, ms", answered, "ADD INDEX, s", "to all", "builds, rounds")
	for _, v := range res.Variants {
		slots := flowSlots(res, v.Name, share)
		if len(slots) == 0 {
			continue
		}
		of := func(figure func(s *result.FlowSlot) float64, format string) string {
			values := make([]float64, len(slots))
			for i := range slots {
				values[i] = figure(&slots[i])
			}
			return withSpread(stats.SpreadOf(values), format)
		}
		var builds []float64
		for _, s := range slots {
			builds = append(builds, s.BuildSeconds...)
		}
		took, number := "", ""
		if v.Kind != result.FlowQuiet {
			took, number = inSeconds(stats.SpreadOf(builds)), strconv.Itoa(len(builds))+", "
		}
		t.row(v.Builds, mechanismsOf(v),
			of(func(s *result.FlowSlot) float64 { return s.During.P50 }, "%.1f"),
			of(p99, "%.1f"), toAll(res, v, share, p99),
			of(func(s *result.FlowSlot) float64 { return s.During.Mean }, "%.1f"),
			of(func(s *result.FlowSlot) float64 { return stats.Ratio(s.During.PerSecond, s.PerSecond) }, "%.2f"),
			took, toAll(res, v, share, buildSeconds), number+strconv.Itoa(len(slots)))
	}
	b.WriteString(t.String() + "\n")
}

func mechanismsOf(v result.FlowVariant) string {
	switch v.Kind {
	case result.FlowQuiet:
		return "no builds"
	case result.FlowAll:
		return "all"
	case result.FlowAgain:
		return "all, once more"
	}
	return "without " + v.Without + ": " + v.Title
}

func flowSlots(res *result.Flow, variant string, share float64) (slots []result.FlowSlot) {
	for _, s := range res.Slots {
		if s.Variant == variant && s.Share == share {
			slots = append(slots, s)
		}
	}
	return slots
}

// figure is what variants are compared by; 0 where it is not known.
type figure func(s *result.FlowSlot) float64

func p99(s *result.FlowSlot) float64          { return s.During.P99 }
func buildSeconds(s *result.FlowSlot) float64 { return stats.Median(s.BuildSeconds) }

// toAll is the cell of a variant's ratio to what all mechanisms give.
func toAll(res *result.Flow, v result.FlowVariant, share float64, f figure) string {
	switch v.Kind {
	case result.FlowAgain:
		noise, known := noiseOf(res, v.Builds, share, f)
		if !known {
			return ""
		}
		return fmt.Sprintf("noise %.2f", noise)
	case result.FlowWithout:
		ratio, moved, _ := effect(res, v, share, f)
		if ratio == 0 {
			return ""
		}
		if moved {
			return fmt.Sprintf("**%.2f**", ratio)
		}
		return fmt.Sprintf("%.2f", ratio)
	}
	return ""
}

// writeWithin lists for each place of builds the mechanisms that moved nothing, by any load.
func writeWithin(b *strings.Builder, res *result.Flow) {
	var places []string
	for _, v := range res.Variants {
		if v.Builds != "" && v.Skipped == "" && !slices.Contains(places, v.Builds) {
			places = append(places, v.Builds)
		}
	}
	for _, place := range places {
		var within []string
		judged := false
		for _, v := range res.Variants {
			if v.Builds != place || v.Kind != result.FlowWithout {
				continue
			}
			moved, known := movesAnything(res, v)
			judged = judged || known
			if known && !moved {
				within = append(within, v.Without)
			}
		}
		switch {
		case !judged:
			fmt.Fprintf(b, "Builds %s: less than %d rounds of everything are too few to know the noise.\n\n", place, leastRounds)
		case len(within) == 0:
			fmt.Fprintf(b, "Builds %s: each mechanism moves a p99 or the time of builds beyond the noise.\n\n", place)
		default:
			fmt.Fprintf(b, "Builds %s: neither a p99 nor the time of builds is moved beyond the noise by %s.\n\n", place, strings.Join(within, ", "))
		}
	}
}

// movesAnything reports whether leaving a mechanism out moved any figure beside any load, if all of them are known.
func movesAnything(res *result.Flow, v result.FlowVariant) (moved, known bool) {
	known = true
	for _, share := range res.Setup.Shares {
		for _, f := range []figure{p99, buildSeconds} {
			_, beyond, ok := effect(res, v, share, f)
			moved, known = moved || beyond, known && ok
		}
	}
	return moved, known
}
