package model

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// tolerance is how far the model may be from a measured point.
const tolerance = 0.25

// TestMeasuredPoints: every point is within a quarter, or says why not; one that is within says nothing.
func TestMeasuredPoints(t *testing.T) {
	points := Points()
	require.Greater(t, len(points), 5*len(unexplained(points)), "most points are explained")
	require.Greater(t, len(points), 2*len(CostList()), "constants that are as many as points explain nothing")
	for _, p := range points {
		off := math.Abs(p.Ratio() - 1)
		if p.Unexplained == "" {
			require.LessOrEqual(t, off, tolerance, "%s (%s), %s: measured %.3g, model %.3g", p.Name, p.Commit, p.Of, p.Measured, p.Modelled())
		} else {
			require.Greater(t, off, tolerance, "%s is explained by now", p.Name)
		}
	}
}

func unexplained(points []Point) (some []Point) {
	for _, p := range points {
		if p.Unexplained != "" {
			some = append(some, p)
		}
	}
	return some
}

// TestPointsAreUnbiased: without the scatter of single points the model is right.
func TestPointsAreUnbiased(t *testing.T) {
	sum := 0.0
	points := Points()
	for _, p := range points {
		sum += math.Log(p.Ratio())
	}
	require.InDelta(t, 0, sum/float64(len(points)), 0.1)
}

// TestPointsComeFromTheDocuments: measured seconds of 879bf06 stand in docs/performance-peers.md.
func TestPointsComeFromTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance-peers.md")
	require.NoError(t, err)
	found := 0
	for _, p := range Points() {
		if p.Commit == "879bf06" && p.Of == Seconds {
			require.Regexp(t, regexp.MustCompile(`\| `+regexp.QuoteMeta(strings.TrimSpace(fixed(p.Measured)))+` [|(]`), string(text), p.Name)
			found++
		}
	}
	require.Equal(t, 14, found)
}

// number is a number of a Go expression, with the units of package config.
var number = regexp.MustCompile(`^[0-9_.]+$`)

// valueOf computes an expression of numbers, * and <<.
func valueOf(t *testing.T, expr string) float64 {
	t.Helper()
	if at := strings.Index(expr, "//"); at >= 0 {
		expr = expr[:at]
	}
	units := map[string]string{"mib": "1048576", "gib": "1073741824"}
	value, shift := 1.0, false
	for _, word := range strings.Fields(expr) {
		switch word = strings.TrimSuffix(word, ","); {
		case word == "<<":
			shift = true
			continue
		case word == "*":
			continue
		case units[word] != "":
			word = units[word]
		}
		require.Regexp(t, number, word, expr)
		n := parse(t, word)
		if shift {
			value *= math.Pow(2, n)
		} else {
			value *= n
		}
		shift = false
	}
	return value
}

// TestQuotesAreTrue: limits of the code are those of the source.
func TestQuotesAreTrue(t *testing.T) {
	seen := make(map[string]bool)
	for _, q := range Quoted() {
		require.False(t, seen[q.Name], q.Name)
		seen[q.Name] = true
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(q.File)))
		require.NoError(t, err)
		found := regexp.MustCompile(q.At).FindAllStringSubmatch(string(text), -1)
		require.Len(t, found, 1, "%s in %s by %s", q.Name, q.File, q.At)
		require.InDelta(t, q.Value, valueOf(t, found[0][1]), 1e-9, "%s in %s", q.Name, q.File)
	}
}

// TestDocumentIsWhatIsPrinted: docs/scale.md has the tables of this commit.
func TestDocumentIsWhatIsPrinted(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteTables(&out))
	text, err := os.ReadFile("../../docs/scale.md")
	require.NoError(t, err)
	require.Contains(t, string(text), out.String(), "run bin/fastddl-bench model --doc docs/scale.md")
}

// TestMoreTakesLonger: more rows never take less time, and more nodes, workers or stores never more.
func TestMoreTakesLonger(t *testing.T) {
	r := randtest.Rand(t)
	for range 2000 {
		rows := math.Pow(10, 4+7*r.Float64())
		c := Production(rows, float64(1+r.IntN(200)))
		c.Stores, c.Workers = float64(3+r.IntN(100)), float64(1+r.IntN(16))
		c = c.With(Designs()[r.IntN(len(Designs()))])
		b := GridBuild(rows)
		base := Estimate(b, c)
		requireSound(t, base)
		more := b
		more.Rows *= 1 + r.Float64()
		e := Estimate(more, c)
		// A flush more makes regions larger, so that there may be fewer of them; more subtasks are built by more nodes.
		if e.Subtasks == base.Subtasks {
			require.GreaterOrEqual(t, e.Seconds(), 0.8*base.Seconds(), "%+v", c)
		}
		stores := c
		stores.Stores *= 2
		e = Estimate(b, stores)
		require.LessOrEqual(t, e.Seconds(), base.Seconds()*1.0001, "%+v", c)
		faster := c
		faster.Slowness = 0.5
		e = Estimate(b, faster)
		require.LessOrEqual(t, e.Seconds(), base.Seconds()*1.0001, "%+v", c)
	}
}

// requireSound checks what holds for any build.
func requireSound(t *testing.T, e Estimation) {
	t.Helper()
	for _, s := range e.Stages {
		require.False(t, math.IsNaN(s.Seconds) || math.IsInf(s.Seconds, 0), "%+v", s)
		require.Positive(t, s.Seconds, "%+v", s)
		require.NotEmpty(t, s.By)
	}
	require.GreaterOrEqual(t, e.PerRegion, 1.0)
	require.GreaterOrEqual(t, e.Files, e.Imports)
	require.GreaterOrEqual(t, e.Sorting.Flushes, 1.0)
	require.LessOrEqual(t, e.Sorting.Spilled, 1.0)
	require.LessOrEqual(t, e.Subtasks, maxSubtasks.Value)
	require.LessOrEqual(t, e.Nodes, e.Subtasks)
}

// TestSortKeepsToTheQuotas: runs and files fit into the disk quota, entries into the memory.
func TestSortKeepsToTheQuotas(t *testing.T) {
	r := randtest.Rand(t)
	for range 2000 {
		c := Cluster{Workers: float64(1 + r.IntN(16)), NodeCores: 16, NodeMemory: math.Pow(2, 30+8*r.Float64()), DiskQuota: math.Pow(2, 24+20*r.Float64())}.withDefaults()
		b := Build{Rows: math.Pow(10, 11*r.Float64())}
		for range 1 + r.IntN(8) {
			b.Indexes = append(b.Indexes, Index{Pair: 10 + 1000*r.Float64()})
		}
		s := planSort(&b, &c, b.Rows, 0)
		require.LessOrEqual(t, s.Memory, c.MemoryLimit/8)
		require.LessOrEqual(t, s.Temp, c.DiskQuota, "%+v %+v", b, c)
		require.LessOrEqual(t, s.Runs, maxRunFiles.Value+c.Workers*float64(len(b.Indexes)), "%+v %+v", b, c)
	}
}

// TestDesignsImportOnce: an exchange and object storage send each region one import; today's sends as many as there are flushes.
func TestDesignsImportOnce(t *testing.T) {
	for _, d := range Designs() {
		if d.Exchange || d.ObjectStorage {
			e := Estimate(GridBuild(1e10), Production(1e10, 16).With(d))
			require.Equal(t, 1.0, e.PerRegion, d.Name)
		}
	}
	e := Estimate(GridBuild(1e10), Production(1e10, 16))
	require.Equal(t, (16*e.Sorting.Flushes+1)/2, e.PerRegion)
}

// TestSubtasksAreDividedAsByTheScheduler: the number and the share of a node follow dist.Count and dist.Choose.
func TestSubtasksAreDividedAsByTheScheduler(t *testing.T) {
	for _, s := range []struct{ rows, nodes, subtasks, building float64 }{
		{1e5, 16, 1, 1}, {1e6, 16, 2, 2}, {1e9, 1, 1, 1}, {1e9, 4, 16, 4}, {1e11, 64, 256, 64}, {1e11, 200, 256, 200},
	} {
		e := Estimate(GridBuild(s.rows), Production(s.rows, s.nodes))
		require.Equal(t, s.subtasks, e.Subtasks, "%+v", s)
		require.Equal(t, s.building, e.Nodes, "%+v", s)
	}
	even, uneven := Estimate(GridBuild(1e11), Production(1e11, 128)), Estimate(GridBuild(1e11), Production(1e11, 200))
	require.LessOrEqual(t, even.Sorting.Flushes, uneven.Sorting.Flushes, "the node with most has two subtasks of 256 either way")
}
