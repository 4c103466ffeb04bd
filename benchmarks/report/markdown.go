package report

import (
	"fmt"
	"strconv"
	"strings"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
	"fastddl/internal/stats"
)

// table is a Markdown table. Columns after the first left ones are flush right.
type table struct {
	strings.Builder
}

func newTable(left int, titles ...string) *table {
	t := &table{}
	t.row(titles...)
	for i := range titles {
		t.WriteString("|---")
		if i >= left {
			t.WriteByte(':')
		}
	}
	t.WriteString("|\n")
	return t
}

func (t *table) row(cells ...string) {
	for _, c := range cells {
		t.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
	}
	t.WriteString("|\n")
}

// Markdown is the section about peers, with links to plots that lie in the
// folder plots, as seen from the document.
func Markdown(res *result.Peers, plots string) string {
	f := figures{res}
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s, %d cores, %d GiB of memory, Linux %s. ", res.Machine.CPU, res.Machine.Cores, res.Machine.MemoryBytes>>30, res.Machine.Kernel)
	b.WriteString("Table: `id INT PRIMARY KEY, k INT, c CHAR(120), pad CHAR(60)`, the same rows for all. One server runs at a time; runs alternate.\n" +
		"Figures are medians, with the lowest and the highest in parentheses.\n\n")
	if !res.Complete {
		b.WriteString("*The run was cut short: not everything was measured as often as it should have been.*\n\n")
	}
	for _, rows := range res.Setup.Rows {
		f.writeAlone(&b, rows, plots)
	}
	if len(res.Setup.Shares) > 0 {
		f.writeLoaded(&b, res.Setup.Rows[0], plots)
	}
	f.writeServers(&b)
	f.writeSkipped(&b)
	return b.String()
}

func (f figures) writeAlone(b *strings.Builder, rows int, plots string) {
	fmt.Fprintf(b, "### ADD INDEX alone, %s rows\n\n![Seconds by case and system, logarithmic](%s/%s)\n\n", thousands(rows), plots, timePlot(rows))
	t := newTable(2, "index", "system", "seconds", "fastddl takes", "to one INT key", "CPU seconds", "peak memory", "runs")
	for _, name := range f.Setup.Cases {
		for _, s := range f.measured() {
			runs := f.alone(s.Name, rows, name)
			if len(runs) == 0 {
				continue
			}
			if why := failure(runs); why != "" {
				t.row(caseTitle(name), s.Title, "failed: "+firstLine(why), "", "", "", "", "")
				continue
			}
			took := seconds(runs)
			t.row(caseTitle(name), s.Title, inSeconds(took),
				times(stats.Ratio(f.secondsAlone(own, rows, name), took.Median)),
				times(stats.Ratio(took.Median, f.secondsAlone(s.Name, rows, plainest))),
				fmt.Sprintf("%.2f", spread(runs, func(r result.Run) float64 { return r.CPUSeconds }).Median),
				mebibytes(spread(runs, func(r result.Run) float64 { return float64(r.PeakMemoryBytes) }).Max),
				strconv.Itoa(took.N))
		}
	}
	b.WriteString(t.String())
	b.WriteString("\n\"fastddl takes\" is fastddl's time over the system's, \"to one INT key\" the system's time over its own for the plainest index. CPU is\n" +
		"of all processes of the server and of the tool, memory includes buffer pools and caches.\n\n")
}

func (f figures) writeLoaded(b *strings.Builder, rows int, plots string) {
	fmt.Fprintf(b, "### ADD INDEX under load, %s rows\n\n", thousands(rows))
	fmt.Fprintf(b, "sysbench's `oltp_read_write` on %d connections arrives at a share of what the server can do in a closed loop; latency counts from arrival.\n\n", f.Setup.Threads)
	for _, share := range f.Setup.Shares {
		fmt.Fprintf(b, "![Transactions per second at %s of the capacity](%s/%s)\n\n", percent(share), plots, loadPlot(share))
	}
	t := newTable(3, "load", "index", "system", "ADD INDEX seconds", "to alone", "transactions/s before, during", "during / before", "p99 ms before, during", "during / before", "builds")
	var notes []string
	for _, share := range f.Setup.Shares {
		for _, name := range f.Setup.LoadCases {
			for _, s := range f.measured() {
				notes = append(notes, f.writeLoadedRow(t, s, rows, name, share)...)
			}
		}
	}
	b.WriteString(t.String() + "\n")
	for _, n := range notes {
		b.WriteString("- " + n + "\n")
	}
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
}

// writeLoadedRow returns what is to be said below the table.
func (f figures) writeLoadedRow(t *table, s result.System, rows int, name string, share float64) (notes []string) {
	runs := f.loaded(s.Name, rows, name, share)
	if len(runs) == 0 {
		return nil
	}
	if why := failure(runs); why != "" {
		t.row(percent(share), caseTitle(name), s.Title, "failed: "+firstLine(why), "", "", "", "", "", "")
		return nil
	}
	of := func(figure func(l *result.Load) float64) stats.Spread {
		return spread(runs, func(r result.Run) float64 { return figure(r.Load) })
	}
	before := of(func(l *result.Load) float64 { return l.Before.PerSecond })
	during := of(func(l *result.Load) float64 { return l.During.PerSecond })
	kept := of(func(l *result.Load) float64 { return stats.Ratio(l.During.PerSecond, l.Before.PerSecond) })
	p99Before := of(func(l *result.Load) float64 { return l.Before.P99 })
	p99During := of(func(l *result.Load) float64 { return l.During.P99 })
	slower := of(func(l *result.Load) float64 { return stats.Ratio(l.During.P99, l.Before.P99) })
	took := seconds(runs)
	t.row(percent(share), caseTitle(name), s.Title, inSeconds(took), times(stats.Ratio(took.Median, f.secondsAlone(s.Name, rows, name))),
		fmt.Sprintf("%.1f, %.1f", before.Median, during.Median), withSpread(kept, "%.2f"),
		fmt.Sprintf("%.1f, %.1f", p99Before.Median, p99During.Median), withSpread(slower, "%.2f"), strconv.Itoa(took.N))

	failed, unfinished := 0, 0
	for _, r := range runs {
		failed += r.Load.Before.Failed + r.Load.During.Failed
		unfinished += r.Load.Before.Unfinished + r.Load.During.Unfinished
	}
	if failed+unfinished > 0 {
		notes = append(notes, fmt.Sprintf("%s at %s: %d transactions failed, %d did not end.", s.Title, percent(share), failed, unfinished))
	}
	return notes
}

func (f figures) writeServers(b *strings.Builder) {
	b.WriteString("### Versions and settings\n\n")
	t := newTable(3, "server", "version", "settings", "rows", "load seconds", "capacity, transactions/s")
	for _, s := range f.Servers {
		if s.Failed != "" {
			t.row(s.Name, s.Version, "given up: "+firstLine(s.Failed), thousands(s.Rows), "", "")
			continue
		}
		capacity := ""
		if s.Capacity > 0 {
			capacity = fmt.Sprintf("%.0f", s.Capacity)
		}
		t.row(s.Name, s.Version, "`"+strings.Join(s.Settings, "`, `")+"`", thousands(s.Rows), fmt.Sprintf("%.1f", s.LoadSeconds), capacity)
	}
	b.WriteString(t.String() + "\n")
	t = newTable(2, "system", "runs")
	for _, s := range f.measured() {
		t.row(s.Title, "`"+s.Statement+"`")
	}
	b.WriteString(t.String() + "\n")
}

func (f figures) writeSkipped(b *strings.Builder) {
	for _, s := range f.Systems {
		if s.Skipped != "" {
			fmt.Fprintf(b, "- %s was not measured: %s.\n", s.Title, s.Skipped)
		}
	}
}

func caseTitle(name string) string {
	c, err := peer.CaseNamed(name)
	if err != nil {
		return name // of an older file
	}
	return c.Title
}

func inSeconds(s stats.Spread) string { return withSpread(s, "%.2f") }

func withSpread(s stats.Spread, format string) string {
	if s.N < 2 {
		return fmt.Sprintf(format, s.Median)
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", s.Median, s.Min, s.Max)
}

// times is a ratio, or nothing where there is none.
func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.3gx", ratio)
}

func percent(share float64) string { return fmt.Sprintf("%.3g%%", 100*share) }

func mebibytes(bytes float64) string { return fmt.Sprintf("%.0f MiB", bytes/(1<<20)) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// thousands writes 2000000 as 2,000,000.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
