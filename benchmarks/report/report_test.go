package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/result"
	"fastddl/sbtest"
)

func TestReplaceSection(t *testing.T) {
	begin, end := beginMark("x"), endMark("x")
	for name, c := range map[string]struct{ document, want string }{
		"empty":    {"", begin + "\n\nnew\n\n" + end + "\n"},
		"no marks": {"# Title\n\n\n", "# Title\n\n" + begin + "\n\nnew\n\n" + end + "\n"},
		"marks":    {"before\n" + begin + "\nold\n" + end + "\nafter\n", "before\n" + begin + "\n\nnew\n\n" + end + "\nafter\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := replaceSection(c.document, "x", "new\n")
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			again, err := replaceSection(got, "x", "new\n")
			require.NoError(t, err)
			require.Equal(t, got, again, "written twice, it is the same")
		})
	}
	for _, broken := range []string{begin, end, end + begin, begin + end + begin + end} {
		_, err := replaceSection(broken, "x", "new")
		require.Error(t, err, broken)
	}
}

func TestWriteSectionKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "docs", "performance.md")
	require.NoError(t, WriteSection(path, "a", "1"))
	require.NoError(t, WriteSection(path, "b", "2"))
	require.NoError(t, WriteSection(path, "a", "3"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `(?s)a:begin.*\n3\n.*a:end.*b:begin.*\n2\n.*b:end`, string(text))
	require.NotContains(t, string(text), "\n1\n")
}

// peers is a small result with everything a result can have.
func peers() *result.Peers {
	run := func(system, name string, round int, seconds float64) result.Run {
		return result.Run{System: system, Rows: 2_000_000, Case: name, Round: round, Seconds: []float64{seconds}, CPUSeconds: seconds, PeakMemoryBytes: 300 << 20}
	}
	loaded := run("fastddl", "int", 1, 1)
	loaded.Load = &result.Load{
		Share: 0.4, PerSecond: 100, Before: sbtest.LatencySummary{PerSecond: 100, P99: 10}, During: sbtest.LatencySummary{PerSecond: 95, P99: 12, Failed: 2},
		Timeline: []int{25, 24, 26, 25, 20, 25, 25, 25}, BucketSeconds: 0.25, Adding: [][2]float64{{1, 1.5}},
	}
	broken := run("mariadb", "eight", 1, 0)
	broken.Seconds, broken.Failed = nil, "the log | is too big\nmore"
	return &result.Peers{
		Machine: result.Machine{CPU: "C", Cores: 2, MemoryBytes: 8 << 30, Kernel: "6"},
		Setup:   result.Setup{Rows: []int{2_000_000}, Cases: []string{"int", "eight"}, LoadCases: []string{"int"}, Shares: []float64{0.4}, Threads: 8},
		Servers: []result.Server{
			{Name: "fastddl", Rows: 2_000_000, Version: "v1", Settings: []string{"a=1"}, LoadSeconds: 3, Capacity: 250},
			{Name: "mariadb", Rows: 2_000_000, Failed: "it crashed"},
		},
		Systems: []result.System{
			{Name: "fastddl", Title: "fastddl", Server: "fastddl", Statement: "ALTER"},
			{Name: "mariadb", Title: "MariaDB", Server: "mariadb", Statement: "ALTER"},
			{Name: "pt-osc", Title: "pt-osc", Server: "mariadb", Skipped: "it is not installed"},
		},
		Runs: []result.Run{
			run("fastddl", "int", 1, 0.7), run("fastddl", "int", 2, 0.9), run("fastddl", "int", 3, 0.5), run("fastddl", "eight", 1, 2.1),
			run("mariadb", "int", 1, 1.75), broken, loaded,
		},
	}
}

func TestMarkdown(t *testing.T) {
	text := Markdown(peers(), "performance")
	for _, want := range []string{
		"| INT key (k) | fastddl | 0.70 (0.50 to 0.90) | 1x | 1x | 0.70 | 300 MiB | 3 |",
		"| INT key (k) | MariaDB | 1.75 | 0.4x | 1x | 1.75 | 300 MiB | 1 |",
		"| 8 narrow indexes at once | fastddl | 2.10 | 1x | 3x | 2.10 | 300 MiB | 1 |",
		`| 8 narrow indexes at once | MariaDB | failed: the log \| is too big |`,
		"| 40% | INT key (k) | fastddl | 1.00 | 1.43x | 100.0, 95.0 | 0.95 | 10.0, 12.0 | 1.20 | 1 |",
		"- fastddl at 40%: 2 transactions failed, 0 did not end.",
		"given up: it crashed", "`a=1`", "- pt-osc was not measured: it is not installed.", "cut short", "2,000,000 rows",
	} {
		require.Contains(t, text, want)
	}
	require.NotRegexp(t, `\b20\d\d-\d\d`, text, "it bears no date")
	columns := 0
	for line := range strings.Lines(text) {
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if n > 0 && columns > 0 {
			require.Equal(t, columns, n, line)
		}
		columns = n
	}
}

// TestPlotsAreThere: what the text links to is written, and is an SVG.
func TestPlotsAreThere(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, WritePeerPlots(peers(), dir))
	points := []result.ScalePoint{
		{Rows: 1_000_000, Workers: 1, FloorSeconds: 0.2, Runs: []result.ScaleRun{{Seconds: 0.5, CPUSeconds: 0.8}, {Seconds: 0.6, CPUSeconds: 0.8}}},
		{Rows: 50_000_000, Workers: 4, FloorSeconds: 9, Runs: []result.ScaleRun{{Seconds: 21, CPUSeconds: 40}}},
	}
	scale := &result.Scale{Machine: result.Machine{Cores: 2}, Index: "k", BySize: points, ByWorkers: points, Complete: true}
	require.NoError(t, WriteScalePlots(scale, dir))
	text := Markdown(peers(), "p") + ScaleMarkdown(scale, "p")
	require.Contains(t, text, "| 1,000,000 | 1 | 0.55 (0.50 to 0.60) | 550 | 800 | 2.75x |")
	links := regexp.MustCompile(`\]\(p/([^)]+)\)`).FindAllStringSubmatch(text, -1)
	require.Len(t, links, 4)
	for _, l := range links {
		isSVG(t, filepath.Join(dir, l[1]))
	}
}

func TestPlotsOfNothing(t *testing.T) {
	dir := t.TempDir()
	nothing := peers()
	nothing.Runs = nil
	require.NoError(t, WritePeerPlots(nothing, dir))
	require.NoError(t, WriteScalePlots(&result.Scale{}, dir))
	isSVG(t, filepath.Join(dir, timePlot(2_000_000)))
	require.NotPanics(t, func() { Markdown(nothing, "p") })
}

func isSVG(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	d := xml.NewDecoder(f)
	root := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && root == "" {
			root = e.Name.Local
		}
	}
	require.Equal(t, "svg", root)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), "NaN")
	require.NotContains(t, string(text), "Inf")
}

func TestMerge(t *testing.T) {
	a, b := peers(), peers()
	a.Complete, b.Complete = true, true
	b.Setup.Rows, b.Setup.Cases = []int{10_000_000}, []string{"int", "char"}
	for i := range b.Runs {
		b.Runs[i].Rows = 10_000_000
	}
	b.Servers[0].Rows = 10_000_000
	b.Systems[2].Skipped = ""
	m, err := Merge(a, b)
	require.NoError(t, err)
	require.Equal(t, []int{2_000_000, 10_000_000}, m.Setup.Rows)
	require.Equal(t, []string{"int", "eight", "char"}, m.Setup.Cases)
	require.Len(t, m.Runs, len(a.Runs)+len(b.Runs))
	require.Len(t, m.Servers, 3)
	require.Len(t, m.Systems, 3)
	require.Empty(t, m.Systems[2].Skipped, "it was there once")
	require.True(t, m.Complete)
	require.Len(t, a.Servers, 2, "what is merged stays as it is")

	b.Machine.Cores = 64
	_, err = Merge(a, b)
	require.ErrorContains(t, err, "two machines")
	_, err = Merge()
	require.Error(t, err)
}

func TestThousandsAreSeparated(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 2_000_000: "2,000,000", 10_000_000: "10,000,000"} {
		require.Equal(t, want, thousands(n))
	}
}
