package model

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// table writes rows of Markdown.
type table struct{ strings.Builder }

// heading begins a table; columns from the n-th are flush right.
func (t *table) heading(n int, titles ...string) {
	t.row(titles...)
	for i := range titles {
		t.WriteString("|---")
		if i >= n {
			t.WriteByte(':')
		}
	}
	t.WriteString("|\n")
}

func (t *table) row(cells ...string) {
	for _, c := range cells {
		t.WriteString("| " + c + " ")
	}
	t.WriteString("|\n")
}

// count prints a number without its unit: 1,000,000 or 0.5.
func count(n float64) string {
	if n < 100 && n != math.Trunc(n) {
		return strings.TrimRight(fmt.Sprintf("%.3f", n), "0")
	}
	if n >= 1e12 {
		return fmt.Sprintf("%.3g", n)
	}
	digits := fmt.Sprintf("%.0f", n)
	var grouped strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			grouped.WriteByte(',')
		}
		grouped.WriteRune(d)
	}
	return grouped.String()
}

// rough prints a number by its first digits.
func rough(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.3g billion", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3g million", n/1e6)
	case n >= 1000:
		digits := math.Pow(10, math.Floor(math.Log10(n))-1)
		return count(math.Round(n/digits) * digits)
	}
	return fmt.Sprintf("%.3g", n)
}

// size prints bytes.
func size(n float64) string {
	switch {
	case n >= tib:
		return fmt.Sprintf("%.3g TiB", n/tib)
	case n >= gib:
		return fmt.Sprintf("%.3g GiB", n/gib)
	case n >= mib:
		return fmt.Sprintf("%.3g MiB", n/mib)
	}
	if n < 1024 {
		return count(n) + " bytes"
	}
	return fmt.Sprintf("%.3g KiB", n/1024)
}

// figure prints a measured number.
func figure(n float64) string {
	if n >= 1000 {
		return count(n)
	}
	return fmt.Sprintf("%.3g", n)
}

// valueIn prints a value in a unit.
func valueIn(n float64, unit string) string {
	switch unit {
	case "bytes":
		return size(n)
	case "bytes/s":
		return size(n) + "/s"
	}
	return strings.TrimSpace(count(n) + " " + unit)
}

// span prints seconds.
func span(s float64) string {
	switch {
	case s >= 7200:
		return fmt.Sprintf("%.1f h", s/3600)
	case s >= 120:
		return fmt.Sprintf("%.0f min", s/60)
	case s >= 10:
		return fmt.Sprintf("%.0f s", s)
	}
	return fmt.Sprintf("%.2f s", s)
}

// WriteTables writes all tables in Markdown.
func WriteTables(w io.Writer) error {
	var t table
	t.WriteString("### Comparison\n\n")
	t.comparison()
	t.WriteString("\n### Today\n\n")
	t.today()
	t.WriteString("\n### Designs\n\n")
	t.designs()
	t.WriteString("\n### What compaction costs\n\n")
	t.sensitivity()
	t.WriteString("\n### Workers\n\n")
	t.workers()
	t.WriteString("\n### Subtasks\n\n")
	t.subtasks()
	t.WriteString("\n### Requests\n\n")
	t.requests()
	t.WriteString("\n### Measured points\n\n")
	t.points()
	t.WriteString("\n### Constants\n\n")
	t.constants()
	_, err := io.WriteString(w, t.String())
	return err
}

// sizes and nodeCounts are the grid of the tables.
var (
	sizes      = []float64{1e8, 1e9, 1e10, 1e11}
	nodeCounts = []float64{1, 4, 16, 64, 200}
)

// GridBuild is the build that the tables of sizes have: an index on an INT of rows of 200 bytes, a sample verified.
func GridBuild(rows float64) Build {
	b := sysbench(rows, onInt)
	b.RowBytes, b.Sampled = 200, true
	return b
}

// full is a build that reads all rows and entries a second time.
func full(b Build) Build {
	b.Sampled = false
	return b
}

// comparison is the table of designs that is discussed.
func (t *table) comparison() {
	titles := []string{"index", "rows", "nodes"}
	for _, d := range Designs() {
		titles = append(titles, d.name())
	}
	t.heading(3, titles...)
	add := func(name string, b Build, nodes float64) {
		cells := []string{name, rough(b.Rows), count(nodes)}
		for _, d := range Designs() {
			e := Estimate(b, Production(b.Rows, nodes).With(d))
			cells = append(cells, span(e.Seconds()))
		}
		t.row(cells...)
	}
	add("INT", GridBuild(1e9), 16)
	for _, rows := range sizes[2:] {
		for _, nodes := range []float64{Production(rows, 1).defaultNodes(), 16, 64} {
			add("INT", GridBuild(rows), nodes)
		}
	}
	for _, nodes := range []float64{4, 16, 64} {
		add("CHAR(120)", wide(1e10), nodes)
	}
}

func (t *table) today() {
	t.heading(15, "rows", "stores", "nodes", "time", "verified in full", "longest stage", "bound by", "flushes", "imports", "for a region", "bytes of one",
		"files of a store", "compaction behind it", "memory, temp of a node")
	for _, rows := range sizes {
		for _, nodes := range nodeCounts {
			c := Production(rows, nodes)
			e, twice := Estimate(GridBuild(rows), c), Estimate(full(GridBuild(rows)), c)
			longest := e.Longest()
			t.row(rough(rows), count(c.Stores), nodesOf(e, nodes), span(e.Seconds()), span(twice.Seconds()), longest.Name, longest.By,
				count(e.Nodes*e.Sorting.Flushes), rough(e.Imports), rough(e.PerRegion), size(e.ImportBytes), rough(e.Files/c.Stores),
				span(e.CompactSeconds), size(e.Memory)+", "+size(e.Temp))
		}
	}
}

// nodesOf says how many nodes build if that is less than there are.
func nodesOf(e Estimation, nodes float64) string {
	if e.Nodes < nodes {
		return fmt.Sprintf("%.0f (%.0f build)", nodes, e.Nodes)
	}
	return count(nodes)
}

// wide is the build of the tables with entries of CHAR(120).
func wide(rows float64) Build {
	b := GridBuild(rows)
	b.Indexes, b.ScanBytes = []Index{onChar}, baseScan+120
	return b
}

func (t *table) designs() {
	t.heading(14, "index", "rows", "nodes", "design", "time", "longest stage", "bound by", "imports for a region", "bytes of one", "files of a store",
		"compaction behind it", "temp of a node", "requests to object storage")
	add := func(name string, b Build, nodes float64) {
		for _, d := range Designs() {
			c := Production(b.Rows, nodes).With(d)
			e := Estimate(b, c)
			longest := e.Longest()
			t.row(name, rough(b.Rows), nodesOf(e, nodes), d.name(), span(e.Seconds()), longest.Name, longest.By, rough(e.PerRegion), size(e.ImportBytes),
				rough(e.Files/c.Stores), span(e.CompactSeconds), size(e.Temp), rough(e.Objects))
		}
	}
	for _, rows := range sizes[2:] {
		for _, nodes := range nodeCounts[1:] {
			add("INT", GridBuild(rows), nodes)
		}
	}
	for _, rows := range sizes[2:] {
		for _, nodes := range nodeCounts[1:4] {
			add("CHAR(120)", wide(rows), nodes)
		}
	}
}

func (t *table) workers() {
	t.heading(9, "rows", "nodes", "4 workers", "bound by", "16 workers", "bound by")
	for _, rows := range sizes {
		for _, nodes := range []float64{1, 4, 16} {
			few, many := Production(rows, nodes), Production(rows, nodes)
			many.Workers = 16
			a, b := Estimate(GridBuild(rows), few), Estimate(GridBuild(rows), many)
			t.row(rough(rows), count(nodes), span(a.Seconds()), a.Longest().By, span(b.Seconds()), b.Longest().By)
		}
	}
}

// subtasks compares how many subtasks a build may be cut into.
func (t *table) subtasks() {
	const rows = 1e11
	nodes, designs := []float64{64, 200}, []Design{Designs()[0], Designs()[3]}
	titles := []string{"subtasks", "the transaction that writes them"}
	for _, d := range designs {
		for _, n := range nodes {
			titles = append(titles, fmt.Sprintf("%s, %.0f nodes", d.name(), n))
		}
	}
	t.heading(0, titles...)
	for _, n := range []float64{16, 64, 256, 1024} {
		cells := []string{count(n), ""}
		for _, d := range designs {
			for _, of := range nodes {
				c := Production(rows, of).With(d)
				c.Subtasks = n
				e := Estimate(GridBuild(rows), c)
				cells = append(cells, span(e.Seconds()))
				cells[1] = size(e.Division)
			}
		}
		t.row(cells...)
	}
	fmt.Fprintf(t, "\nWith %s ranges each, %s subtasks are %s; the largest transaction has %s.\n",
		count(subtaskRanges.Value), count(maxSubtasks.Value), size(maxSubtasks.Value*rangeBytes.Value*(subtaskRanges.Value+samplePlaces.Value)), size(txnBytes.Value))
}

// sensitivity shows how far times depend on what compaction costs.
func (t *table) sensitivity() {
	factors := []float64{1, 3, 6}
	titles := []string{"index", "rows", "nodes", "design"}
	for _, f := range factors {
		titles = append(titles, "factor "+count(f))
	}
	t.heading(4, titles...)
	add := func(name string, b Build, nodes float64) {
		for _, d := range Designs() {
			cells := []string{name, rough(b.Rows), count(nodes), d.name()}
			for _, f := range factors {
				c := Production(b.Rows, nodes).With(d)
				c.MergeFactor = f
				e := Estimate(b, c)
				cells = append(cells, span(e.Seconds()))
			}
			t.row(cells...)
		}
	}
	add("INT", GridBuild(1e10), 16)
	add("INT", GridBuild(1e11), 16)
	add("CHAR(120)", wide(1e10), 16)
}

func (t *table) requests() {
	t.heading(0, "rows", "nodes", "regions of the table, the index", "pages", "counts, in full", "sums, in full", "streams of files", "requests to take in", "to PD")
	for _, rows := range sizes {
		for _, nodes := range []float64{4, 64} {
			e := Estimate(full(GridBuild(rows)), Production(rows, nodes))
			t.row(rough(rows), nodesOf(e, nodes), rough(e.TableRegions)+", "+rough(e.IndexRegions), rough(e.Pages), rough(e.Counts), rough(e.Sums),
				rough(e.Writes), rough(e.Ingests), rough(e.Lookups))
		}
	}
}

func (t *table) points() {
	t.heading(3, "point", "commit", "quantity", "measured", "model", "ratio")
	for _, p := range Points() {
		note := fmt.Sprintf("%.2f", p.Ratio())
		if p.Unexplained != "" {
			note += ": " + p.Unexplained
		}
		of := string(p.Of)
		if p.Of == Seconds {
			of = "s"
		}
		t.row(p.Name, p.Commit, of, figure(p.Measured), figure(p.Modelled()), note)
	}
	t.WriteString("\nNot in the model:\n\n")
	t.heading(9, "points", "why")
	for _, x := range ExcludedPoints() {
		t.row(x.Point, x.Why)
	}
}

func (t *table) constants() {
	t.heading(9, "cost, ns of a quiet processor", "", "a", "from")
	for _, c := range CostList() {
		t.row(c.Name, count(c.Value), c.Unit, c.From)
	}
	t.WriteByte('\n')
	t.heading(9, "assumption", "", "from")
	for _, a := range Assumptions() {
		t.row(a.Name, valueIn(a.Value, a.Unit), a.From)
	}
	t.WriteByte('\n')
	t.heading(9, "limit of the code", "", "file")
	for _, q := range Quoted() {
		t.row(q.Name, valueIn(q.Value, q.Unit), "`"+q.File+"`")
	}
}

// WriteBuild writes the stages of one build by all designs.
func WriteBuild(w io.Writer, b Build, c Cluster) error {
	var t table
	t.heading(0, "design", "stage", "time", "bound by")
	for _, d := range Designs() {
		e := Estimate(b, c.With(d))
		for _, s := range e.Stages {
			t.row(d.name(), s.Name, span(s.Seconds), s.By)
		}
		t.row(d.name(), "all", span(e.Seconds()), fmt.Sprintf("%s imports of %s, %.3g for a region; %s rewritten in %s; %s of memory, %s of temp", rough(e.Imports), size(e.ImportBytes),
			e.PerRegion, size(e.Compacted), span(e.CompactSeconds), size(e.Memory), size(e.Temp)))
	}
	_, err := io.WriteString(w, t.String())
	return err
}
